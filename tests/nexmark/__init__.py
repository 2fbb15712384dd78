"""The Nexmark queries over a stream of auctions, against DuckDB over the whole stream."""
