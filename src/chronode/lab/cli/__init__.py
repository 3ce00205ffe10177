"""Commands for the papers: tasks, data sets, tables, analyses and benchmarks."""

from __future__ import annotations

import typer

from ...system import built_in


def attach(app: typer.Typer) -> None:
    """Adds the commands of the lab to those of chronode."""
    from .analyze import analyze_app
    from .commands import bench, demo, reproduce, results
    from .data import data_app
    from .tasks import tasks_app

    for name, group in (("analyze", analyze_app), ("data", data_app), ("tasks", tasks_app)):
        app.add_typer(group, name=name)
    for command in (demo, reproduce, results):
        app.command()(command)
    if (benchmarks := built_in("benchmarks")) is not None:
        app.command()(benchmarks.bench)
    else:  # an installed wheel
        app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(bench)
