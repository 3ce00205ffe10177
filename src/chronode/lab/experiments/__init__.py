"""The tables of the papers: their numbers, the recipes to reproduce them, and the ledger of runs."""
