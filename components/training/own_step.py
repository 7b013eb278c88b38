"""The user's training step (`train.step`), and errors that name it."""

from collections.abc import Mapping
from typing import Any

import keras

from components import refs
from components.errors import PenstockError, SettingsError


class OwnStep:
    """Calls the function that a reference names with the model and a batch.

    An error inside a compiled function loses its type (AutoGraph), so `explained` is asked after tracing has failed.
    """

    def __init__(self, reference: str, model: keras.Model) -> None:
        try:
            self._function = refs.load(reference)
        except (ImportError, AttributeError) as error:
            raise SettingsError(
                f"train.step {reference}: {error}; expected package.module:function of a package that is installed, "
                "or whose folder is on PYTHONPATH"
            ) from error
        self._reference, self._model, self._returned = reference, model, ""

    def __call__(self, batch: Any) -> Mapping[str, Any]:
        """Returns the logs of a step."""
        logs = self._function(self._model, batch)
        if not isinstance(logs, Mapping):
            self._returned = type(logs).__name__
            raise TypeError(self._returned)
        return logs

    def explained(self, error: Exception) -> PenstockError:
        """Returns the error to raise instead of one of the step; its first line is the last one of the original."""
        if self._returned:
            return SettingsError(
                f"train.step {self._reference} must return a dict of logs, such as {{'loss': loss}}; it returned "
                f"{self._returned}"
            )
        text = str(error).strip()
        last = text.rpartition("\n")[2].strip()
        cause = last if last != text else f"{type(error).__name__}: {text}"
        return PenstockError(
            "\n".join([f"train.step {self._reference} failed: {cause}", *([text] if last != text else [])])
        )
