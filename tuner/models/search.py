"""The setting that is worth most: of all of them where these are few, else found by a search."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from devices.device import Setting
from tuner.models.forms import Array
from tuner.space import Space

Worth = Callable[[Sequence[Setting]], Array]
"""What each of n settings is worth, shape (n,); minus infinity: nothing. It may depend on the others of the n."""

ENUMERATED = 6000
"""Settings: the most that are looked at one by one, about as many as a search looks at."""
_FROM_EVERYWHERE, _FROM_NEARBY = 2000, 2000
_STARTS = 6


def most_worth(
    space: Space, worth: Worth, tried: Sequence[Setting], seed: Sequence[int]
) -> tuple[Setting | None, float]:
    """The setting of `space` that is worth most and was not tried, and its worth; None and minus infinity without one.

    Args:
        space: The space.
        worth: What is maximized.
        tried: Settings to leave out.
        seed: Of the search: equal arguments give equal settings.
    """
    tried = [setting for setting in tried if setting in space]
    untried = space.untried(tried)
    if len(untried) > ENUMERATED:
        from tuner.models.local_search import climb  # here: the rest of the package must not wait seconds for torch

        sample = _sample(space, untried, tried, np.random.default_rng(seed))
        starts = [sample[i] for i in np.argsort(-worth(sample), kind="stable")[:_STARTS]]
        settings = [climb(space, worth, starts, tried), *starts]
    else:
        settings = list(untried)
    found = worth(settings) if settings else np.array([-np.inf])
    best = int(found.argmax())
    return (settings[best], float(found[best])) if found[best] > -np.inf else (None, -np.inf)


def _sample(
    space: Space, untried: Sequence[Setting], tried: Sequence[Setting], generator: np.random.Generator
) -> list[Setting]:
    """Untried settings to begin at: any, those that differ from a tried one in one knob, and the corners, where what
    rises with every knob is greatest or least."""
    nearby = [{**setting, knob.name: v} for setting in tried for knob in space.free for v in knob.values]
    if len(nearby) > _FROM_NEARBY:
        nearby = [nearby[i] for i in generator.choice(len(nearby), _FROM_NEARBY, replace=False)]
    corners = itertools.product(*(sorted({knob.values[0], knob.values[-1]}) for knob in space.knobs))
    found = [
        *(untried[int(i)] for i in generator.choice(len(untried), _FROM_EVERYWHERE, replace=False)),
        *(setting for setting in (*nearby, *map(space.setting, corners)) if setting in untried),
    ]
    return list({space.key(setting): setting for setting in found}.values())
