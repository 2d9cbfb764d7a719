"""What a person sees of `tune compare`: what is compared, progress, and a row for each strategy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from tuner.arena.compare import Compared, RunSink
from tuner.arena.contest import FULL_GRID, Contest
from tuner.arena.result import Run, Skipped
from tuner.arena.summary import NEVER, Summary, summarize
from tuner.report.console import console, count_bar
from tuner.report.text import count, figure, setting_text
from tuner.units import watts

Column = tuple[str, Callable[[Summary], str]]


def _percent(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 1 else figure(value, 3)


QUALITY: tuple[Column, ...] = (
    ("studies", lambda s: str(s.studies)),
    ("to 2 %", lambda s: figure(s.to_two_percent, 3)),
    ("90th", lambda s: figure(s.to_two_percent_p90, 3)),
    ("<= 2 %", lambda s: _percent(s.within_two_percent)),
    ("<= 7 %", lambda s: _percent(s.within_seven_percent)),
    ("regret %", lambda s: _percent(s.regret, 2)),
)
COST: tuple[Column, ...] = (
    ("bursts", lambda s: f"{s.bursts:.1f}"),
    ("> cap", lambda s: f"{s.violations:.2f}"),
    ("> 5 %", lambda s: f"{s.violations_over_5pct:.2f}"),
    ("frozen >", lambda s: _percent(s.frozen_above, 1)),
    ("s/ask", lambda s: _seconds(s.suggest_s)),
    ("search s", lambda s: figure(s.search_s, 3)),
    ("search J", lambda s: figure(s.search_j, 3)),
)
LEGEND = (
    "studies: made. to 2 %, 90th: bursts until a truly feasible setting within 2 % of the optimum, median and 90th "
    f"percentile (never = {NEVER}). <= 2 %, <= 7 %: studies in % whose frozen setting is that near to the best with "
    "power <= 0.98 cap. regret %: of the frozen settings, mean.",
    "bursts: until the end, confirmation included, mean. > cap, > 5 %: bursts above the cap, and by more than 5 %, per "
    "study. frozen >: frozen settings in % truly above the cap by more than 1 %. s/ask: seconds of a suggestion, "
    "median. search s, search J: on the device per study, mean.",
)


def summary_tables(rows: Sequence[Summary], width: int) -> list[Table]:
    """A row for each strategy: one table, or several below each other where the width (columns of text) is small."""
    groups = _packed((*QUALITY, *COST), rows, width)
    if len(groups) > 1:
        groups = [*_packed(QUALITY, rows, width), *_packed(COST, rows, width)]
    return [_table(rows, columns) for columns in groups]


def _packed(columns: Sequence[Column], rows: Sequence[Summary], width: int) -> list[list[Column]]:
    """The columns in groups, each as wide as fits beside the names of the strategies."""
    names = max(map(len, ("strategy", *(row.strategy for row in rows))))
    groups: list[list[Column]] = []
    room = 0
    for title, cell in columns:
        needed = 2 + max(map(len, (title, *(cell(row) for row in rows))))
        if needed > room or not groups:
            groups.append([])
            room = width - names
        groups[-1].append((title, cell))
        room -= needed
    return groups


def _table(rows: Sequence[Summary], columns: Sequence[Column]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("strategy", overflow="fold")
    for title, _ in columns:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(row.strategy), *(cell(row) for _, cell in columns))
    return table


def summary_markdown(rows: Sequence[Summary]) -> str:
    """All figures as one table of Markdown."""
    columns = (*QUALITY, *COST)
    lines = ["| strategy | " + " | ".join(title for title, _ in columns) + " |", "|---" + "|---:" * len(columns) + "|"]
    lines += [f"| {row.strategy} | " + " | ".join(cell(row) for _, cell in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def contest_text(contest: Contest) -> str:
    """`2 profiles (replayed), caps 25 %, 7 W on mean power, 10 seeds, at most 25 bursts, noise 2 % of ...`."""
    emulated = {table.profile.metadata.provenance == "emulated" for table in contest.tables}
    source = "some replayed, some emulated" if len(emulated) > 1 else "emulated" if emulated == {True} else "replayed"
    caps = "no cap"
    if contest.caps:
        statistics = dict.fromkeys(str(contest.statistic(table)) for table in contest.tables)
        word = "cap" if len(contest.caps) == 1 else "caps"
        caps = f"{word} {', '.join(map(str, dict.fromkeys(contest.caps)))} on {' or '.join(statistics)} power"
    budget = f"at most {contest.bursts} bursts"
    full = [name for name in dict.fromkeys(contest.strategies) if name in FULL_GRID]
    budget += f" ({', '.join(full)}: every setting)" if full else ""
    noise = "no noise"
    if contest.noise_throughput or contest.noise_power:
        noise = f"noise {100 * contest.noise_throughput:g} % of throughput, {100 * contest.noise_power:g} % of power"
    transfer = f", transfer from {', '.join(table.name for table in contest.transfer)}" if contest.transfer else ""
    tables = f"{count(len(contest.tables), 'profile')} ({source})"
    return f"{tables}, {caps}, {count(contest.seeds, 'seed')}, {budget}, {noise}{transfer}"


def partial_text(compared: Compared) -> str:
    """`interrupted after 3 of 10 studies`."""
    return (
        f"{'interrupted' if compared.interrupted else 'failed'} after {len(compared.runs)} of {compared.total} studies"
    )


class ArenaScreen:
    """The text output. Quiet (`--json -`): standard output stays free, all of it goes to standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = console(stderr=quiet)

    def begin(self, contest: Contest) -> None:
        """The first line: what is compared, and where the figures come from."""
        if not self._quiet:
            self._console.print(f"source: {contest_text(contest)}")

    @contextlib.contextmanager
    def progress(self, contest: Contest) -> Iterator[RunSink | None]:
        """A bar; plain lines without a terminal."""

        def line(done: int, total: int, found: Run | Skipped) -> None:
            self._console.print(_run_line(done, total, found))

        if not self._console.is_terminal:
            yield None if self._quiet else line
            return
        bar = count_bar(self._console, "studies")
        with bar:
            task = bar.add_task("starting", total=len(contest.tasks()))

            def show(done: int, total: int, found: Run | Skipped) -> None:
                bar.update(task, completed=done, total=total, description=f"{found.strategy} on {found.profile}")

            yield show

    def end(self, compared: Compared) -> None:
        """The table, what was skipped, and whether it ended too early."""
        if not self._quiet and compared.runs:
            for table in summary_tables(summarize(compared.runs), self._width):
                self._console.print()
                self._console.print(table, soft_wrap=False)
            self._console.print()
            for text in LEGEND:
                self._console.print(text)
            infeasible = dict.fromkeys((r.profile, r.cap_w) for r in compared.runs if r.optimum is None)
            for name, cap_w in infeasible:
                power = watts(cap_w) if cap_w is not None else "any power"
                self._console.print(f"note: no setting of {name} holds {power}: these studies have no regret")
        for skipped in compared.skipped:
            self._console.print(f"skipped: {skipped.strategy} on {skipped.profile}: {skipped.reason}")
        if not compared.runs and not compared.partial:
            self._console.print("no strategy applies to any of the profiles")
        if compared.partial:
            rest = "what is shown and written is of these alone" if compared.runs else "no file was written"
            self._console.print(f"{partial_text(compared)}; {rest}")

    def wrote(self, what: str, path: str) -> None:
        """Where a file is."""
        if not self._quiet:
            self._console.print(f"{what}: {path}")

    @property
    def _width(self) -> int:
        return self._console.width


def _run_line(done: int, total: int, found: Run | Skipped) -> Text:
    """`[7/80] sobol on v100.csv, 129.2 W, seed 3: 25 bursts, 4 above the cap, regret 1.2 % at limit 125 W, ...`."""
    counted = f"[{done:>{len(str(total))}}/{total}] {found.strategy} on {found.profile}"
    if isinstance(found, Skipped):
        return Text(f"{counted}: skipped", style="yellow")
    cap = watts(found.cap_w, 4) if found.cap_w is not None else "no cap"
    end = "nothing frozen"
    if found.frozen is not None:
        regret = "no optimum" if found.frozen.regret is None else f"regret {100 * found.frozen.regret:.2f} %"
        end = f"{regret} at {setting_text(found.frozen.setting)}"
    above = f"{found.violations} above the cap, " if found.cap_w is not None else ""
    return Text(f"{counted}, {cap}, seed {found.seed}: {count(len(found.settings), 'burst')}, {above}{end}")
