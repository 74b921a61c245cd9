"""TensorFlow's RMSProp, against its formula and in a parameter server."""

import torch
from torch import nn

from paceline.strategies.ps.owned import require_elementwise
from paceline.workloads import catalogue
from paceline.workloads.rmsprop import TensorFlowRMSprop


def test_it_follows_its_formula_from_a_squared_average_of_one() -> None:
    parameter = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = TensorFlowRMSprop([parameter], lr=0.1, alpha=0.9, eps=1e-10)
    expected, average = parameter.detach().clone(), torch.ones(2, dtype=torch.float64)
    for step in range(5):
        gradient = torch.tensor([0.5 + step, -0.25], dtype=torch.float64)
        parameter.grad = gradient.clone()
        optimizer.step()
        average = 0.9 * average + 0.1 * gradient**2
        expected -= 0.1 * gradient / (average + 1e-10).sqrt()
    assert torch.allclose(parameter, expected, rtol=1e-14)


def test_parameters_without_a_gradient_are_left_alone() -> None:
    parameter = nn.Parameter(torch.ones(2))
    TensorFlowRMSprop([parameter]).step()
    assert torch.equal(parameter, torch.ones(2))


def test_servers_may_hold_ranges_of_it() -> None:
    require_elementwise(catalogue.build("vae").optimizer)
