"""What a training is: the plan that was asked for, what makes two trainings the same, and the random numbers."""

import json
import math
import random
import sys
from typing import Any, Dict, List, NamedTuple, Optional

import torch

WARM_UP = "steps of the warm-up"
FP32 = "fp32"
CHOICES = {"precision": (FP32, "bf16", "fp16"), "batch_norm": ("plain", "frozen", "group")}
CHOICES["decay"] = ("constant", "linear", "cosine")
"""What a recipe may say; what comes first changes nothing."""


class Asked(NamedTuple):
    """A plan of training (`devices.training.TrainingPlan`), checked."""

    micro_batch: int
    effective_batch: int
    learning_rate: float
    warm_up_from: float
    warm_up_steps: int
    steps: int
    seed: int
    checkpoint_dir: str
    out_dir: Optional[str]
    resume: bool
    clip_norm: Optional[float]
    precision: str
    batch_norm: str
    decay: str
    plan: Dict[str, Any]


def read_plan(plan: Dict[str, Any]) -> Asked:
    """The plan, if it is one.

    Args:
        plan: What `TrainingPlan.to_json` gave.

    Raises:
        ValueError: a number out of its range.
    """
    recipe = plan["recipe"]
    asked = Asked(
        _whole("micro-batch", plan["setting"].get("batch_size"), 1),
        _whole("effective batch", plan["effective_batch"], 1),
        _finite("learning rate", plan["learning_rate"]),
        _finite("learning rate that the warm-up begins with", plan["warm_up_from"]),
        _whole("number of steps of the warm-up", plan["warm_up_steps"], 0),
        _whole("number of steps", plan["steps"], 1),
        _whole("seed", plan["seed"], -(2**63)),
        plan["checkpoint_dir"],
        plan["out_dir"],
        plan["resume"],
        None if recipe["clip_norm"] is None else _finite("longest gradient", recipe["clip_norm"]),
        _choice("precision", recipe),
        _choice("batch_norm", recipe),
        _choice("decay", recipe),
        plan,
    )
    for name, value in (("learning rate", asked.learning_rate), ("longest gradient", asked.clip_norm)):
        if value == 0:
            raise ValueError("the {} must be above 0".format(name))
    return asked


def _whole(name: str, value: Any, lowest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1 or value < lowest:
        raise ValueError("the {} must be a whole number >= {}, not {!r}".format(name, lowest, value))
    return int(value)


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError("the {} must be a finite number >= 0, not {!r}".format(name, value))
    return float(value)


def _choice(name: str, recipe: Dict[str, Any]) -> str:
    if recipe[name] not in CHOICES[name]:
        raise ValueError("{} must be one of {}, not {!r}".format(name, ", ".join(CHOICES[name]), recipe[name]))
    return str(recipe[name])


def essence(asked: Asked, samples: int) -> Dict[str, Any]:
    """What a checkpoint must agree with to be resumed, by names for the user. The number of steps may change, unless
    the learning rate falls towards their end."""
    same = {
        "micro-batch": asked.micro_batch,
        "effective batch": asked.effective_batch,
        "learning rate": asked.learning_rate,
        "learning rate that the warm-up begins with": asked.warm_up_from,
        WARM_UP: asked.warm_up_steps,
        "seed": asked.seed,
        "training samples": samples,
    }
    if asked.clip_norm is not None:
        same["longest gradient"] = asked.clip_norm
    for name, (usual, *_) in CHOICES.items():
        if getattr(asked, name) != usual:
            same[name] = getattr(asked, name)
    if asked.decay != CHOICES["decay"][0]:
        same["steps"] = asked.steps
    same.update(_flat(json.loads(json.dumps(asked.plan["identity"])), ""))
    return same


def _flat(value: Any, name: str) -> Dict[str, Any]:
    """Nested dictionaries as one, with dotted names."""
    if not isinstance(value, dict) or (name and not value):
        return {name: value}
    flat: Dict[str, Any] = {}
    for key, inner in value.items():
        flat.update(_flat(inner, "{}.{}".format(name, key) if name else key))
    return flat


def differences(there: Dict[str, Any], here: Dict[str, Any], step: int) -> List[str]:
    """What differs between two essences, in words, as far as it matters to a training that has made `step` steps."""
    names = list(here) + [name for name in there if name not in here]
    if step >= max(there.get(WARM_UP, 0), here[WARM_UP]):  # a longer training may warm up longer; this one has
        names.remove(WARM_UP)
    return [
        "{}: {} there, {} here".format(name, _say(there, name), _say(here, name))
        for name in names
        if name not in there or name not in here or there[name] != here[name]
    ]


def _say(values: Dict[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "none"


def seed_all(seed: int) -> None:
    """Seed torch, `random` and, where it was imported, numpy."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def random_states(device: torch.device) -> Dict[str, Any]:
    """The states of all generators that `seed_all` seeds; `set_random_states` takes them."""
    numpy = sys.modules.get("numpy")
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "random": random.getstate(),
        "numpy": None if numpy is None else _plain(numpy.random.get_state()),
    }


def _plain(state: Any) -> List[Any]:
    """numpy's state without numpy's arrays, which one version cannot read of another."""
    name, keys, *rest = state
    return [name, keys.tolist(), *rest]


def set_random_states(states: Dict[str, Any], device: torch.device) -> None:
    """Put back what `random_states` gave; a generator that is not here now is left out."""
    torch.set_rng_state(states["torch"])
    random.setstate(states["random"])
    if states["cuda"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
    numpy = sys.modules.get("numpy")
    if states["numpy"] is not None and numpy is not None:
        numpy.random.set_state(tuple(states["numpy"]))
