"""How every call is answered: its thread, its errors, its limits."""
