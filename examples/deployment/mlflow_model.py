"""A model file of dm2l as a model of MLflow, from code: nothing is pickled.

    import mlflow

    mlflow.pyfunc.save_model(
        "served",
        python_model="mlflow_model.py",
        artifacts={"model": "tags.dm2l"},
        pip_requirements=["dm2l"],
    )

and `mlflow models serve -m served`, or `mlflow.pyfunc.load_model("served").predict(frame)`.
"""

import mlflow
import pandas as pd

from dm2l.persistence import load_model


class LabelModel(mlflow.pyfunc.PythonModel):
    """Probabilities of all labels; with ``params={"method": "predict"}`` decisions, or scores."""

    def load_context(self, context):
        # A model file holds numbers and names, never code; see the page on model files.
        self.model = load_model(context.artifacts["model"])

    def predict(self, context, model_input, params=None):
        method = (params or {}).get("method", "predict_proba")
        if method not in ("predict_proba", "predict", "decision_function"):
            raise ValueError(
                f"method must be predict_proba, predict or decision_function, got {method!r}."
            )
        answers = getattr(self.model, method)(model_input)
        return pd.DataFrame(answers, columns=self.model.label_names_.astype(str))


mlflow.models.set_model(LabelModel())
