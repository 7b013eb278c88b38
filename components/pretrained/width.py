"""The length of a pretrained model's embeddings, computed once per model and stored."""

import io
import json
import subprocess
import tempfile
from pathlib import Path

from components import helper_process
from components.errors import BadInput
from components.pretrained.find import PretrainedModel
from components.storage import durable

_SHOWN = 1000  # last characters of the error output of a process that failed


def embedding_width(model: PretrainedModel, notes: Path) -> int:
    """Returns the length of the model's embeddings; stored below `notes` by the model's digest."""
    stored = notes / "extractors" / f"{model.digest}.json"
    if stored.exists():
        return int(json.loads(stored.read_bytes())["width"])
    width = _measure(model)
    if notes.exists():  # `penstock plan` must not create the folder
        durable.write_bytes(stored, json.dumps({"width": width}).encode())
    return width


def _measure(model: PretrainedModel) -> int:
    """Runs `print_width` in a process of its own: planning must not import TensorFlow."""
    path, digest, trusted = model.path, model.digest, model.trusted
    program = f"from {__name__} import print_width; print_width({path!r}, {digest!r}, trusted={trusted})"
    command = helper_process.command(program)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadInput(f"extract.model {path}: {done.stderr[-_SHOWN:].strip()}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        raise BadInput(answer["error"])
    return int(answer["width"])


def print_width(path: str, digest: str, *, trusted: bool) -> None:
    """Prints the length of the embedding of a blank image as JSON, or the reason why there is none."""
    import tensorflow as tf
    from PIL import Image

    from components.pretrained.copy_model import copy_model
    from components.pretrained.load import load

    blank = io.BytesIO()
    Image.new("RGB", (32, 32)).save(blank, "PNG")
    try:
        with tempfile.TemporaryDirectory() as folder:
            copy = copy_model(PretrainedModel(path, digest, trusted=trusted), Path(folder, "model"))
            embeddings = load(copy, trusted=trusted).embed(tf.constant([blank.getvalue()]))
        answer = {"width": int(embeddings.shape[1])}
    except BadInput as error:
        print(json.dumps({"error": str(error)}))
    else:
        print(json.dumps(answer))
