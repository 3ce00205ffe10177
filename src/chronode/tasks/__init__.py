"""Tasks: how each one's data is made or read, split and scored."""
