"""One Ax experiment behind every strategy: settings in, trials' outcomes told, the next settings out."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence

import pandas as pd
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig
from ax.core.data import Data
from ax.core.parameter import ChoiceParameter
from ax.core.search_space import SearchSpace
from ax.exceptions.core import SearchSpaceExhausted
from ax.exceptions.generation_strategy import GenerationStrategyRepeatedPoints
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.utils.common.random import with_rng_seed

from devices.device import BATCH_KNOB, Setting, knob_value
from devices.measurement import Status
from tuner.models.threads import single_threaded
from tuner.problem import Problem
from tuner.space import Space
from tuner.strategies.strategy import Strategy, Suggestion
from tuner.trial import Trial

_MAX_REJECTIONS = 64  # proposals outside the measurable settings before the nearest one inside is taken


def rng_seed(*numbers: int) -> int:
    """A seed that every generator takes (31 bits), from any whole numbers."""
    digest = hashlib.sha256(repr(numbers).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Ax reports every step and its libraries warn of numerics they handle; neither is for our user."""
    logger = logging.getLogger("ax")
    level, handlers = logger.level, [(handler, handler.level) for handler in logger.handlers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.CRITICAL)
        for handler, _ in handlers:
            handler.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)
            for handler, handler_level in handlers:
                handler.setLevel(handler_level)


def outcome(problem: Problem, trial: Trial) -> dict[str, tuple[float, float]]:
    """What Ax is told of a trial: metric -> (mean, standard error), in the logarithm; empty where nothing was found."""
    measurement = trial.measurement
    if measurement is None or measurement.status not in (Status.OK, Status.OVER_CAP):
        return {}
    metrics = {problem.goal.metric: problem.goal.estimate(measurement)}
    if problem.cap:
        metrics[problem.cap.metric] = measurement.power(problem.cap.statistic)
    return {f"log_{name}": (math.log(e.value), e.sem / e.value) for name, e in metrics.items() if e is not None}


class AxExperiment:
    """An Ax `Client` that follows the trials of a study.

    `indices` maps the index of a study's trial to that of its Ax trial; the two differ where Ax proposed a setting that
    cannot be measured.
    """

    def __init__(self, client: Client, indices: dict[int, int]) -> None:
        self._client = client
        self._indices = indices

    @classmethod
    def create(cls, problem: Problem, generation_strategy: GenerationStrategy) -> AxExperiment:
        """A new experiment: ordered choices for the knobs, the cap as outcome constraint.

        Goal and power are given to Ax as logarithms: clocks and batch sizes act on them by factors.
        """
        client = Client()
        client.configure_experiment(
            parameters=[
                ChoiceParameterConfig(
                    name=knob.name, values=[float(v) for v in knob.values], parameter_type="float", is_ordered=True
                )
                for knob in problem.space.free
            ]
        )
        sign = "" if problem.goal.maximize else "-"
        client.configure_optimization(
            objective=f"{sign}log_{problem.goal.metric}",
            outcome_constraints=[f"log_{problem.cap.metric} <= {math.log(problem.cap.watts)!r}"]
            if problem.cap
            else None,
        )
        client.set_generation_strategy(generation_strategy)
        return cls(client, {})

    @classmethod
    def load(cls, state: str) -> AxExperiment:
        """Inverse of `dump`."""
        document = json.loads(state)
        # The public calls take file names, and a killed process would leave those files behind.
        client = Client._from_json_snapshot(document["client"])
        return cls(client, {int(ours): ax for ours, ax in document["indices"].items()})

    def dump(self) -> str:
        """The whole experiment as JSON."""
        return json.dumps({"client": self._client._to_json_snapshot(), "indices": self._indices})

    def follow(self, problem: Problem, trials: Sequence[Trial]) -> None:
        """Attach the trials Ax does not know yet, tell it the outcomes, and leave out batch sizes that do not fit."""
        experiment = self._client._experiment
        generated = set(experiment.trials) - set(self._indices.values())
        for trial in trials:
            if trial.index not in self._indices:
                parameters = self._parameters(problem.space, trial.setting)
                match = next(
                    (
                        index
                        for index in sorted(generated)
                        if not experiment.trials[index].status.is_terminal
                        and experiment.trials[index].arms[0].parameters == parameters
                    ),
                    None,
                )
                generated.discard(-1 if match is None else match)
                self._indices[trial.index] = self._client.attach_trial(parameters) if match is None else match
        told = [
            (self._indices[trial.index], outcome(problem, trial))
            for trial in trials
            if not trial.pending and not experiment.trials[self._indices[trial.index]].status.is_terminal
        ]
        rows = [
            {
                "trial_index": index,
                "arm_name": experiment.trials[index].arms[0].name,
                "metric_name": name,
                "metric_signature": name,
                "mean": mean,
                "sem": sem,
            }
            for index, data in told
            for name, (mean, sem) in data.items()
        ]
        if rows:  # all at once: the Client's own call sorts the whole table again for every trial
            experiment.attach_data(Data(df=pd.DataFrame(rows)))
        for index, data in told:
            if data:
                experiment.trials[index].mark_completed()
            else:  # an abandoned point is never proposed again, a failed one might be
                self._client.mark_trial_abandoned(index)
        self._restrict(problem.open_space(trials))

    def _restrict(self, space: Space) -> None:
        batches = next((knob.values for knob in space.free if knob.name == BATCH_KNOB), None)
        parameter = self._client._experiment.search_space.parameters.get(BATCH_KNOB)
        if batches is None or parameter is None or list(parameter.values) == list(batches):
            return
        parameters = [
            ChoiceParameter(
                name=p.name,
                parameter_type=p.parameter_type,
                values=list(map(float, batches)) if p.name == BATCH_KNOB else p.values,
                is_ordered=True,
                sort_values=True,
            )
            for p in self._client._experiment.search_space.parameters.values()
        ]
        # The Client has no call for this; Ax's experiment allows it and refits on what stays inside.
        self._client._experiment.search_space = SearchSpace(parameters)

    def generate(self, space: Space, tried: frozenset[tuple[float, ...]], n: int) -> list[Setting]:
        """Up to `n` untried settings of `space`; fewer or none where Ax says that nothing is left."""
        settings: list[Setting] = []
        taken = set(tried)
        for _ in range(n):
            setting = self._generate_one(space, taken)
            if setting is None:
                break
            taken.add(space.key(setting))
            settings.append(setting)
        return settings

    def _generate_one(self, space: Space, taken: set[tuple[float, ...]]) -> Setting | None:
        proposal: Setting | None = None
        for _ in range(_MAX_REJECTIONS):
            try:
                index, parameters = next(iter(self._client.get_next_trials(max_trials=1).items()))
            except (SearchSpaceExhausted, GenerationStrategyRepeatedPoints):
                return None
            proposal = self._setting(space, parameters)
            if proposal in space and space.key(proposal) not in taken:
                return proposal
            self._client.mark_trial_abandoned(index)
        if proposal is None:
            return None
        return self.attach(space, space.nearest(proposal, space.untried(map(space.setting, taken))))

    def attach(self, space: Space, setting: Setting) -> Setting:
        """Make `setting` a trial that Ax did not propose; returns it."""
        self._client.attach_trial(self._parameters(space, setting))
        return setting

    @staticmethod
    def _parameters(space: Space, setting: Setting) -> dict[str, float]:
        return {knob.name: float(setting[knob.name]) for knob in space.free}

    @staticmethod
    def _setting(space: Space, parameters: dict[str, float]) -> Setting:
        return {
            knob.name: knob_value(parameters[knob.name] if knob.name in parameters else knob.values[0])
            for knob in space.knobs
        }


class AxBackedStrategy(Strategy):
    """A strategy that runs inside one Ax experiment.

    A subclass gives the `GenerationStrategy`: of Ax's own nodes (`keeps_state`, so that the Client's JSON travels with
    the trials: attaching trials to a new Client makes it go another way), or of an `ExternalGenerationNode`, whose
    experiment is built anew from the trials each time. Either way equal trials give equal suggestions.
    """

    keeps_state = True

    @abstractmethod
    def generation_strategy(self, problem: Problem) -> GenerationStrategy:
        """The nodes that propose settings for `problem`."""

    def converged(self, problem: Problem, trials: Sequence[Trial]) -> bool:
        """Whether to stop although settings are left. The default searches on."""
        return False

    def preferred(self, problem: Problem, trials: Sequence[Trial], untried: Sequence[Setting]) -> Setting | None:
        """A setting of `untried` to take before Ax is asked, or None."""
        return None

    def suggest(self, problem: Problem, trials: Sequence[Trial], n: int = 1, state: str | None = None) -> Suggestion:
        space = problem.open_space(trials)
        tried = frozenset(space.key(trial.setting) for trial in trials)
        untried = space.untried(trial.setting for trial in trials)
        if not untried or self.converged(problem, trials):
            return Suggestion((), state)
        if self.keeps_state and len(untried) <= n:  # nothing left for Ax to choose
            return Suggestion(tuple(untried), state)
        preferred = self.preferred(problem, trials, untried)
        if preferred is not None and n == 1:
            return Suggestion((preferred,), state)
        with _quiet(), single_threaded(), with_rng_seed(rng_seed(problem.seed, len(trials))):
            if state:
                experiment = AxExperiment.load(state)
            else:
                experiment = AxExperiment.create(problem, self.generation_strategy(problem))
            experiment.follow(problem, trials)
            settings = [experiment.attach(space, preferred)] if preferred is not None else []
            taken = tried | {space.key(setting) for setting in settings}
            settings += experiment.generate(space, taken, n - len(settings))
            return Suggestion(tuple(settings), experiment.dump() if self.keeps_state else None)
