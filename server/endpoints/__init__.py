"""The services of the wire, a file each."""
