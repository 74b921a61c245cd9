"""The image models: their exact sizes, shapes and losses, and that they learn."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from paceline.workloads import catalogue
from paceline.workloads.base import Workload
from paceline.workloads.vae import PIXELS, Vae

COUNTS = {
    "vae": 3_410_058,
    "pilotnet": 252_219,
    "pilotnet:wide=on": 1_595_511,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "vgg16": 138_357_544,
}
SMALL = (
    "vae:data=generated,channels=8,hidden=16,samples=256",
    "pilotnet:data=generated,samples=64",
    "pilotnet:data=generated,samples=64,wide=on",
    "resnet18:image=32,classes=10,width=4,samples=64",
    "resnet50:image=32,classes=10,width=4,samples=64",
    "resnet101:image=32,classes=10,width=4,samples=64",
    "resnet152:image=32,classes=10,width=4,samples=64",
    "vgg16:image=32,classes=10,width=4,samples=64",
)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Models this small run fastest on one thread, whatever else the machine does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _first_batch(workload: Workload, samples: int) -> tuple[Tensor, ...]:
    return workload.data().train.batch(np.arange(samples))


@pytest.mark.parametrize(("text", "count"), COUNTS.items())
def test_a_model_has_exactly_its_published_number_of_parameters(text: str, count: int) -> None:
    with torch.device("meta"):  # shapes only: VGG16 alone would be half a gigabyte
        assert _parameters(catalogue.build(text).model()) == count


def test_every_layer_of_the_vae_has_its_published_number_of_parameters() -> None:
    model = Vae()
    layers = [_parameters(m) for m in model.modules() if isinstance(m, nn.Conv2d | nn.ConvTranspose2d | nn.Linear)]
    encoder = [5, 320, 36_928, 36_928, 1_605_760]
    latent = [258, 258]
    decoder = [384, 1_618_176, 36_928, 36_928, 36_928, 257]
    assert layers == encoder + latent + decoder


def test_every_layer_of_pilotnet_has_its_published_number_of_parameters() -> None:
    model = catalogue.build("pilotnet").model()
    layers = [_parameters(m) for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert layers == [1_824, 21_636, 43_248, 27_712, 36_928, 115_300, 5_050, 510, 11]


def test_the_vae_returns_pixel_logits_mean_and_log_variance() -> None:
    logits, mean, log_variance = Vae(channels=4, hidden=8, latent=3)(torch.rand(5, 1, 28, 28))
    assert (logits.shape, mean.shape, log_variance.shape) == ((5, 1, 28, 28), (5, 3), (5, 3))


@pytest.mark.parametrize("image", [32, 45, 64])
@pytest.mark.parametrize("name", ["resnet18", "resnet50", "vgg16"])
def test_a_classifier_gives_one_logit_per_class_whatever_the_image_size(name: str, image: int) -> None:
    model = catalogue.build(f"{name}:image={image},classes=7,width=2").model()
    assert model(torch.rand(2, 3, image, image)).shape == (2, 7)


def test_width_scales_every_layer_of_vgg_in_proportion() -> None:
    with torch.device("meta"):
        shapes = [m.weight.shape[:2] for m in _weighted(catalogue.build("vgg16").model())]
        halved = [m.weight.shape[:2] for m in _weighted(catalogue.build("vgg16:width=32").model())]
    inner = [tuple(size // 2 for size in shape) for shape in shapes]
    assert halved[1:-1] == [torch.Size(shape) for shape in inner[1:-1]]
    assert (halved[0], halved[-1]) == ((32, 3), (1000, 2048))


def _weighted(model: nn.Module) -> list[nn.Conv2d | nn.Linear]:
    return [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]


def test_a_bottleneck_halves_the_image_in_its_3x3_convolution() -> None:
    model = catalogue.build("resnet50:width=4").model()
    strided = [m.kernel_size for m in model.modules() if isinstance(m, nn.Conv2d) and m.stride == (2, 2)]
    assert strided == [(7, 7)] + [(3, 3), (1, 1)] * 3  # the stem, then residual and shortcut of three stages


@pytest.mark.parametrize("seed", range(50))
def test_the_first_filter_of_the_vae_starts_alive(seed: int) -> None:
    torch.manual_seed(seed)
    first = Vae(channels=1, hidden=1).encoder[:3]
    image = torch.zeros(1, 1, 28, 28)
    image[..., 8:20, 12:16] = 1.0
    assert first(image).sum() > 0


def test_the_first_layer_of_the_vae_pads_right_and_below() -> None:
    first = Vae(channels=1, hidden=1).encoder[:3]
    corner = torch.zeros(1, 1, 28, 28)
    corner[..., 27, 27] = 1.0
    assert first(corner)[0, 0].nonzero().min() == 26  # reached by the windows that start at 26 and 27
    assert first(corner).shape == (1, 1, 28, 28)


def test_the_vae_loss_is_784_times_the_pixel_entropy_plus_the_mean_divergence() -> None:
    workload = catalogue.build("vae:channels=2,hidden=4,latent=3")
    images = torch.rand(6, 1, 28, 28, dtype=torch.float64)
    model = workload.model().double()
    torch.manual_seed(5)
    loss = workload.loss(model, (images,))
    torch.manual_seed(5)
    logits, mean, log_variance = model(images)
    pixels = torch.sigmoid(logits)
    entropy = -(images * pixels.log() + (1 - images) * (1 - pixels).log()).flatten(1).mean(1)
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).mean(1)
    assert loss.dtype == torch.float64
    torch.testing.assert_close(loss, (784 * entropy + divergence).mean())
    assert PIXELS == 784


def test_the_latent_sample_of_the_vae_is_scaled_by_the_variance_not_its_root() -> None:
    model = Vae(channels=2, hidden=4, latent=1)
    for layer, bias in ((model.mean, 0.0), (model.log_variance, math.log(4.0))):
        nn.init.zeros_(layer.weight)
        nn.init.constant_(layer.bias, bias)
    seen: list[Tensor] = []
    model.decoder[0].register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    torch.manual_seed(0)
    model(torch.rand(2000, 1, 28, 28))
    assert seen[0].std().item() == pytest.approx(4.0, rel=0.1)


def test_the_noise_of_the_vae_comes_from_the_global_random_state() -> None:
    model = Vae(channels=2, hidden=4).eval()
    images = torch.rand(2, 1, 28, 28)
    torch.manual_seed(1)
    first, second = model(images)[0], model(images)[0]
    torch.manual_seed(1)
    assert torch.equal(model(images)[0], first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("text", SMALL)
def test_a_few_steps_lower_the_loss(text: str) -> None:
    workload = catalogue.build(text)
    batch = _first_batch(workload, 16)
    torch.manual_seed(0)
    model = workload.model()
    optimizer = workload.optimizer.build(model.parameters())
    losses = []
    for _ in range(4):
        torch.manual_seed(1)  # the same noise and dropout, so that losses can be compared
        loss = workload.loss(model, batch)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("text", SMALL)
def test_what_validation_adds_up_gives_the_mean_loss(text: str) -> None:
    workload = catalogue.build(text)
    batch = _first_batch(workload, 8)
    model = workload.model().eval()
    torch.manual_seed(1)
    totals = workload.totals(model, batch)
    torch.manual_seed(1)
    total, count = totals["loss"]
    torch.testing.assert_close(total / count, workload.loss(model, batch))
    assert all(count == 8 for _, count in totals.values())


def test_the_terms_of_the_vae_add_up_to_its_loss() -> None:
    workload = catalogue.build("vae:data=generated,channels=2,hidden=4,samples=8")
    totals = workload.totals(workload.model(), _first_batch(workload, 8))
    torch.testing.assert_close(totals["loss"][0], totals["reconstruction"][0] + totals["kl"][0])


def test_the_metrics_of_pilotnet_and_the_classifiers_are_their_definitions() -> None:
    class Echo(nn.Module):
        def forward(self, answers: Tensor) -> Tensor:
            return answers

    angles = torch.tensor([0.0, 1.0, -0.5])
    pilotnet = catalogue.build("pilotnet").totals(Echo(), (torch.tensor([0.5, 1.0, -1.5]), angles))
    assert pilotnet["angle_error"] == (torch.tensor(1.5), 3)
    assert pilotnet["loss"] == (torch.tensor(1.25), 3)
    logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    resnet = catalogue.build("resnet18").totals(Echo(), (logits, torch.tensor([0, 1, 1])))
    assert resnet["accuracy"] == (torch.tensor(2.0), 3)


class Rounded(nn.Module):
    """A model whose outputs arrive in bfloat16, as under autocast."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        outputs = self.model(inputs)
        return outputs.bfloat16() if isinstance(outputs, Tensor) else tuple(o.bfloat16() for o in outputs)


@pytest.mark.parametrize("text", SMALL[:2] + SMALL[3:4])
def test_the_loss_of_outputs_in_reduced_precision_is_computed_in_that_of_the_inputs(text: str) -> None:
    workload = catalogue.build(text)
    model = Rounded(workload.model())
    batch = _first_batch(workload, 8)
    assert workload.loss(model, batch).dtype == torch.float32
    assert {total.dtype for total, _ in workload.totals(model, batch).values()} == {torch.float32}


@pytest.mark.parametrize("text", SMALL)
def test_a_model_and_its_inputs_in_float64_give_a_float64_loss(text: str) -> None:
    workload = catalogue.build(text)
    batch = tuple(t.double() if t.is_floating_point() else t for t in _first_batch(workload, 4))
    assert workload.loss(workload.model().double(), batch).dtype == torch.float64
