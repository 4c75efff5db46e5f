"""A picture of the table a sweep ends with, as a terminal shows it.

python scripts/picture_table.py outputs [--sweep quickstart] [--to docs/pictures/table.svg]
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

from rich.console import Console

from evopolicy.analysis import find_runs, present_ranks, rank_table
from evopolicy.kernel.errors import EvoPolicyError
from evopolicy.kernel.run.sweep import sweep_folder
from evopolicy.present.text import render_rich

WIDTH = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="the output folder of the sweep")
    parser.add_argument("--sweep", default="quickstart")
    parser.add_argument("--to", type=Path, default=Path("docs/pictures/table.svg"))
    options = parser.parse_args()
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    try:
        console.print(
            render_rich(
                present_ranks(rank_table(find_runs(sweep_folder(options.output, options.sweep))))
            )
        )
    except EvoPolicyError as error:
        print(f"picture_table: {error}", file=sys.stderr)
        return 1
    options.to.parent.mkdir(parents=True, exist_ok=True)
    console.save_svg(str(options.to), title=f"evopolicy -m experiment={options.sweep}")
    print(options.to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
