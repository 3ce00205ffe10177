"""Coverage of prediction intervals of forecasts, with the defaults of SequenceForecaster.

    python benchmarks/intervals.py [NAME ...]

Of each series, the first 70% are trained on. Every window of the rest is forecast, and the intervals are compared with
what came. benchmarks/intervals.md is the table.
"""

import argparse
import warnings
from pathlib import Path

from defaults import series

from chronode.data import forecast_windows, from_list
from chronode.estimators import SequenceForecaster
from chronode.training._calibration import interval_scores

HERE = Path(__file__).parent
HORIZONS = {"elnino": 12, "sunspots": 5, "co2": 13, "seatbelts": 6, "elec_equip": 6}
HORIZONS |= dict.fromkeys(("realgdp", "unemp", "tbilrate", "infl", "realint"), 4)
LEVELS = (50, 80, 90, 95)


def measure(name):
    """Coverage, pinball loss and CRPS over the last 30% of a series."""
    whole, horizon = series(name), HORIZONS[name]
    cut = int(0.7 * len(whole))
    fitted = SequenceForecaster(horizon=horizon, random_state=0).fit([whole[:cut]])
    steps = fitted.window_
    rest = forecast_windows(
        from_list([whole[cut - steps :]], channels=fitted.channels_), horizon, window=steps, least=steps
    )
    scores = interval_scores(fitted.model_, fitted.scaler_.transform(rest), LEVELS, fitted.scaler_)
    return {"steps": len(whole), "horizon": horizon, "windows": len(rest), **scores}


def main():
    warnings.filterwarnings("ignore")
    options = argparse.ArgumentParser()
    options.add_argument("names", nargs="*", default=list(HORIZONS))
    rows = {name: measure(name) for name in options.parse_args().names}
    columns = list(next(iter(rows.values())))
    lines = [
        "# Coverage of prediction intervals",
        "",
        "`python benchmarks/intervals.py`; see there for the method.",
        "",
    ]
    lines += [f"| series | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for name, row in rows.items():
        cells = [f"{100 * row[key]:.1f}%" if key.startswith("coverage") else f"{row[key]:.4g}" for key in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    (HERE / "intervals.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
