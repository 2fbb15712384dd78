"""Windows of time on changes, each given once: late rows are taken out, and windows wait for the watermark."""
