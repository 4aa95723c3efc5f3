"""Value estimators: TD(0), TD(1), TD(lambda) and GAE, as modules and as functions."""

from rlnb.objectives.value import functional
from rlnb.objectives.value.advantages import GAE, TD0Estimator, TD1Estimator, TDLambdaEstimator, ValueEstimatorBase

__all__ = ["GAE", "TD0Estimator", "TD1Estimator", "TDLambdaEstimator", "ValueEstimatorBase", "functional"]
