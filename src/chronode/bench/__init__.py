"""What is timed, and against whom: `chronode bench`."""
