"""Predicts records with an exported model in a process of its own, which has TensorFlow and none of our code.

`components.serving.proof` starts this file by its path. It imports TensorFlow, then waits for one line on its standard
input, JSON: the model, the records, the columns of the signature `raw`, and the folder for the answers. An answer is
one file per signature and output: `<signature>.<output>`, a serialized tensor.
"""

import gc
import json
import sys
from pathlib import Path
from typing import Any

# Importing one of them is an error here: a model server has none of them.
ABSENT = ("components", "pipelines", "tfx", "tensorflow_transform", "keras", "tf_keras")
OPTIONAL = ("googleapiclient", "scipy", "pandas")  # TensorFlow imports them if they exist, and loads faster without


def main() -> None:
    """Answers one request; ends without an answer if the process that started it has ended."""
    sys.modules.update(dict.fromkeys((*ABSENT, *OPTIONAL)))  # type: ignore[arg-type]
    gc.disable()  # it would find nothing to free
    import tensorflow as tf

    line = sys.stdin.readline()
    if not line:
        return
    request = json.loads(line)
    signatures = tf.saved_model.load(request["model"]).signatures
    batches = list(tf.data.TFRecordDataset(request["records"]).batch(request["batch_size"]))
    answers = {"serving_default": [signatures["serving_default"](examples=batch) for batch in batches]}
    if request["raw"]:
        answers["raw"] = [signatures["raw"](**_values(signatures["raw"], batch, request["raw"])) for batch in batches]
    for signature, found in answers.items():
        for output in found[0]:
            whole = tf.concat([each[output] for each in found], axis=0)
            tf.io.write_file(str(Path(request["answers"], f"{signature}.{output}")), tf.io.serialize_tensor(whole))


def _values(signature: Any, examples: Any, columns: dict[str, tuple[str, Any]]) -> dict[str, Any]:
    """Returns what a client sends for these records: the bytes of images and tensors, texts, cells of a table."""
    import tensorflow as tf

    spec = signature.structured_input_signature[1]
    wanted = {name: tf.io.FixedLenFeature([], spec[key].dtype, missing) for key, (name, missing) in columns.items()}
    parsed = tf.io.parse_example(examples, wanted)
    return {key: parsed[name] for key, (name, _) in columns.items()}


if __name__ == "__main__":
    main()
