"""What travels to the workers of an engine: wheels, their requirements, a container image."""
