"""Tidegate's client: submit a Substrait plan once, feed it splits, read Arrow results epoch by epoch."""
