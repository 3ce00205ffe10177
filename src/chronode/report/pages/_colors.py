"""The colors of all plots."""

# Okabe and Ito's palette: distinguishable for color-blind readers.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
