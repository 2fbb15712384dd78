"""Generated code; `python -m tidegate.proto.generate` writes it anew."""
