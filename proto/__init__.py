"""The base that every part of Tidegate shares: the wire messages and the errors they carry."""
