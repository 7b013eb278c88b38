"""TFX's penguin template as a whole chain, with TFX's LocalDagRunner and its modules as they are installed.

    CsvExampleGen ─► StatisticsGen ─► SchemaGen ─► ExampleValidator
           └─► Transform (z-scores) ─► Trainer (fit) ─► Evaluator ─► Pusher

Only names of columns, batch size, steps and splits are given: the template evaluates its eval split of a third; here
it is a test split of a tenth, as ours is. The template is written for Keras 2 (TF_USE_LEGACY_KERAS).
"""

import argparse
import os
from pathlib import Path
from typing import Any

_TEMPLATE = "tfx.experimental.templates.penguin.models"
_EVAL_STEPS = 15  # of the template


def pipeline(home: Path, data: Path, label: str, batch: int, steps: int) -> Any:
    """Returns the pipeline, with its artifacts in a folder."""
    import tensorflow_model_analysis as tfma
    from tfx import v1 as tfx

    split = tfx.proto.SplitConfig.Split
    splits = [split(name=name, hash_buckets=share) for name, share in (("train", 8), ("eval", 1), ("test", 1))]
    _set_up_template(data, label, batch)
    source = tfx.components.CsvExampleGen(
        input_base=str(data), output_config=tfx.proto.Output(split_config=tfx.proto.SplitConfig(splits=splits))
    )
    statistics = tfx.components.StatisticsGen(examples=source.outputs["examples"])
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"])
    validator = tfx.components.ExampleValidator(
        statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"]
    )
    transform = tfx.components.Transform(
        examples=source.outputs["examples"],
        schema=schema.outputs["schema"],
        preprocessing_fn=f"{_TEMPLATE}.preprocessing.preprocessing_fn",
    )
    trainer = tfx.components.Trainer(
        run_fn=f"{_TEMPLATE}.model.run_fn",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema.outputs["schema"],
        train_args=tfx.proto.TrainArgs(num_steps=steps),
        eval_args=tfx.proto.EvalArgs(num_steps=_EVAL_STEPS),
    )
    baseline = tfx.dsl.Resolver(
        strategy_class=tfx.dsl.experimental.LatestBlessedModelStrategy,
        model=tfx.dsl.Channel(type=tfx.types.standard_artifacts.Model),
        model_blessing=tfx.dsl.Channel(type=tfx.types.standard_artifacts.ModelBlessing),
    ).with_id("latest_blessed_model_resolver")
    evaluator = tfx.components.Evaluator(
        examples=source.outputs["examples"],
        model=trainer.outputs["model"],
        baseline_model=baseline.outputs["model"],
        eval_config=_eval_config(tfma, f"{label}_xf"),
        example_splits=["test"],
    )
    pusher = tfx.components.Pusher(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(base_directory=str(home / "serving"))
        ),
    )
    return tfx.dsl.Pipeline(
        pipeline_name="stock",
        pipeline_root=str(home / "artifacts"),
        components=[source, statistics, schema, validator, transform, trainer, baseline, evaluator, pusher],
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(home / "metadata.db")
        ),
    )


def _set_up_template(data: Path, label: str, batch: int) -> None:
    from tfx.experimental.templates.penguin.models import constants, features

    with next(data.glob("*.csv")).open() as table:
        columns = table.readline().rstrip().split(",")
    features.FEATURE_KEYS, features.LABEL_KEY = [name for name in columns if name != label], label
    constants.TRAIN_BATCH_SIZE = batch


def _eval_config(tfma: Any, label: str) -> Any:
    threshold = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(lower_bound={"value": 0.6}),
        change_threshold=tfma.GenericChangeThreshold(
            direction=tfma.MetricDirection.HIGHER_IS_BETTER, absolute={"value": -1e-10}
        ),
    )
    accuracy = tfma.MetricConfig(class_name="SparseCategoricalAccuracy", threshold=threshold)
    model = tfma.ModelSpec(
        signature_name="serving_default", label_key=label, preprocessing_function_names=["transform_features"]
    )
    return tfma.EvalConfig(
        model_specs=[model],
        slicing_specs=[tfma.SlicingSpec()],
        metrics_specs=[tfma.MetricsSpec(metrics=[accuracy])],
    )


def main() -> None:
    """Runs the chain once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--label", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    arguments = parser.parse_args()
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    from tfx import v1 as tfx

    made = pipeline(arguments.home, arguments.data, arguments.label, arguments.batch, arguments.steps)
    tfx.orchestration.LocalDagRunner().run(made)


if __name__ == "__main__":
    main()
