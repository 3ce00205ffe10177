"""The papers' tables: their figures, how to run them again, and the ledger of what was run."""
