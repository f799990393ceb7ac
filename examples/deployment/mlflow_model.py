"""A dm2l model file as an MLflow model from code, so that nothing is pickled.

    import mlflow

    mlflow.pyfunc.save_model(
        "served",
        python_model="mlflow_model.py",
        artifacts={"model": "tags.dm2l"},
        pip_requirements=["dm2l"],
    )

Then run `mlflow models serve -m served`, or call
`mlflow.pyfunc.load_model("served").predict(frame)`.
"""

import mlflow
import pandas as pd

from dm2l.persistence import load_model


class LabelModel(mlflow.pyfunc.PythonModel):
    """MLflow model that returns probabilities, decisions or scores of all labels."""

    def load_context(self, context):
        # A model file contains numbers and names, but no code; see the page on model files.
        self.model = load_model(context.artifacts["model"])

    def predict(self, context, model_input, params=None):
        method = (params or {}).get("method", "predict_proba")
        if method not in ("predict_proba", "predict", "decision_function"):
            raise ValueError(
                f"method is {method!r}, but must be predict_proba, predict or decision_function."
            )
        answers = getattr(self.model, method)(model_input)
        return pd.DataFrame(answers, columns=self.model.label_names_.astype(str))


mlflow.models.set_model(LabelModel())
