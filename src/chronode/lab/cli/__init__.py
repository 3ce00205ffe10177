"""Commands for the papers: tasks, data sets, tables, analyses and benchmarks."""

COMMANDS = {
    "demo": ("commands", "Train a few models on irregular events and compare them."),
    "bench": ("commands", "Time one training batch of the models on this machine."),
    "reproduce": ("commands", "Reproduce a table of a paper, or draw one of its figures."),
    "results": ("commands", "Write RESULTS.md from the ledger of finished runs."),
    "analyze": ("analyze", "Analyze models: health, gradients, equilibria, oscillators."),
    "data": ("data", "Data sets: list, download, verify, build, pack."),
    "tasks": ("tasks", "The tasks of the papers: description, sizes and settings."),
}
"""As `chronode.cli.app.COMMANDS`: each command, the module whose `attach` adds it, and the first line of its help."""
