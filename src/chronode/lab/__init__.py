"""The five papers: their numbers and settings, tasks, data sets, experiments, analyses and benchmarks."""
