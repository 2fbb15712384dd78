"""Records what a service's tasks were told, in a data folder, so that a service that was killed can go on."""
