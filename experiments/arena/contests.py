"""The contests: who meets whom, on which profiles, under which conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.arena.tables import emulated_tables, public_tables
from tuner.arena import Contest, Table, parse_caps
from tuner.strategies import STRATEGIES

PARTS = ("public", "emulated", "ablations", "transfer")
STRATEGY = "cap-aware"
ABLATIONS = (
    STRATEGY,
    *(f"{STRATEGY}:no-{part}" for part in ("prior", "mask", "stopping", "repetition", "confirmation")),
)
_COPIES = ("grid",)  # `lut` with another budget
NOISE_THROUGHPUT, NOISE_POWER = 0.02, 0.01


@dataclass(frozen=True)
class Scale:
    """How much is done: seeds, bursts and caps (in the words of `tune compare`)."""

    quick: bool

    @property
    def seeds(self) -> int:
        return 1 if self.quick else 10

    @property
    def bursts(self) -> int:
        return 15 if self.quick else 25

    @property
    def caps(self) -> str:
        return "50%" if self.quick else "25%,50%,75%"

    def contest(
        self, tables: tuple[Table, ...], strategies: tuple[str, ...], transfer: tuple[Table, ...] = ()
    ) -> Contest:
        """A contest of this size."""
        return Contest(
            tables,
            strategies,
            parse_caps(self.caps),
            seeds=self.seeds,
            bursts=self.bursts,
            noise_throughput=NOISE_THROUGHPUT,
            noise_power=NOISE_POWER,
            transfer=transfer,
        )


def contests(part: str, folder: Path, scale: Scale) -> Iterator[tuple[str, Contest]]:
    """The contests of a part with their names; none where the public traces are needed and absent.

    Args:
        part: One of `PARTS`.
        folder: For the recorded emulations.
        scale: How much is done.
    """
    everybody = tuple(name for name in STRATEGIES if name not in _COPIES)
    public = public_tables(quick=scale.quick)
    if part == "public" and public:
        yield part, scale.contest(public, everybody)
    if part == "emulated":
        yield part, scale.contest(emulated_tables(folder, quick=scale.quick), everybody)
    if part == "ablations":
        recorded = () if scale.quick and public else emulated_tables(folder, quick=scale.quick)
        yield part, scale.contest((*public, *recorded), ABLATIONS)
    if part == "transfer":
        tuned, *others = emulated_tables(folder, quick=False)
        for other in others[: 1 if scale.quick else None]:
            name = other.name.rpartition(" ")[2]
            yield f"{part}-{name}", scale.contest((tuned,), (STRATEGY,), transfer=(other,))
        yield f"{part}-none", scale.contest((tuned,), (STRATEGY,))
