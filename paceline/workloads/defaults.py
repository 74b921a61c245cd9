"""The batch and the optimizer that each workload of the catalogue uses by default; needs no torch."""

from dataclasses import dataclass

from paceline.recipe import OptimizerRecipe


@dataclass(frozen=True, kw_only=True)
class TrainingDefaults:
    """What a run uses where its spec leaves batch, learning rate or optimizer open."""

    batch: int
    """Samples per worker and update."""

    optimizer: OptimizerRecipe


def _defaults(batch: int, factory: str, **options: float) -> TrainingDefaults:
    return TrainingDefaults(batch=batch, optimizer=OptimizerRecipe(factory=factory, options=options))


# The usual recipes of image classifiers: 0.1 (VGG 0.01) at a batch of 256, in proportion to the batch of one worker.
_BATCH = 64

VAE = _defaults(128, "paceline.workloads.rmsprop:TensorFlowRMSprop", lr=0.001, alpha=0.9, eps=1e-10)
PILOTNET = _defaults(32, "torch.optim:Adam", lr=0.001)
RESNET = _defaults(_BATCH, "torch.optim:SGD", lr=0.1 * _BATCH / 256, momentum=0.9, weight_decay=1e-4)
VGG = _defaults(_BATCH, "torch.optim:SGD", lr=0.01 * _BATCH / 256, momentum=0.9, weight_decay=5e-4)
NMT = _defaults(360, "torch.optim:Adam", lr=1e-3)
BERT = _defaults(8, "torch.optim:Adam", lr=1e-4)
