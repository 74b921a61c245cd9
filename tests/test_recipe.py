"""Optimizers that can be built anywhere."""

import functools
from functools import partial

import pytest
import torch

from paceline.errors import SpecError
from paceline.recipe import OptimizerRecipe


def parameters() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.ones(3))]


def test_a_class_or_a_partial_becomes_a_recipe_that_builds_the_same() -> None:
    recipe = OptimizerRecipe.of(partial(torch.optim.Adam, lr=0.5, betas=(0.8, 0.9)))
    assert recipe.lr == 0.5
    built = recipe.build(parameters())
    assert type(built) is torch.optim.Adam
    assert built.param_groups[0]["betas"] == (0.8, 0.9)
    assert type(OptimizerRecipe.of(torch.optim.SGD).build(parameters())) is torch.optim.SGD
    assert OptimizerRecipe.of(recipe) is recipe


def test_the_outer_partial_wins() -> None:
    class Kept(functools.partial[torch.optim.Optimizer]):  # a partial of a plain partial is flattened by Python itself
        pass

    inner = partial(torch.optim.SGD, lr=1.0, momentum=0.5)
    assert OptimizerRecipe.of(Kept(inner, lr=2.0)).options == {"lr": 2.0, "momentum": 0.5}


def test_a_recipe_survives_json_and_takes_the_same_steps() -> None:
    recipe = OptimizerRecipe(factory="torch.optim:AdamW", options={"lr": 0.1, "betas": (0.5, 0.75)}, clip_norm=2.0)
    again = OptimizerRecipe.from_json(recipe.to_json())
    assert (again.factory, again.clip_norm, again.lr) == (recipe.factory, 2.0, 0.1)
    results = []
    for one in (recipe, again):
        (parameter,) = parameters()
        optimizer = one.build([parameter])
        for step in range(3):
            parameter.grad = torch.tensor([1.0, -2.0, 0.5]) * (step + 1)
            optimizer.step()
        results.append(parameter.detach())
    assert torch.equal(*results)


@pytest.mark.parametrize("build", [lambda p: torch.optim.SGD(p, lr=1), partial(lambda p, lr: None, lr=1)])
def test_what_cannot_be_named_is_refused_with_the_remedy(build: object) -> None:
    with pytest.raises(SpecError, match=r"cannot be rebuilt elsewhere: pass a class or partial\(Class, lr=…\)"):
        OptimizerRecipe.of(build)  # type: ignore[arg-type]


def test_positional_arguments_are_refused() -> None:
    with pytest.raises(SpecError, match="keyword arguments only"):
        OptimizerRecipe.of(partial(torch.optim.SGD, parameters()))


def test_a_recipe_without_a_learning_rate_says_so_when_it_is_asked() -> None:
    with pytest.raises(SpecError, match=r"torch.optim.sgd:SGD has no lr: write partial\(Class, lr=…\)"):
        _ = OptimizerRecipe.of(torch.optim.SGD).lr


def test_a_class_of_the_script_itself_cannot_go_to_a_server() -> None:
    with pytest.raises(SpecError, match="__main__:Mine cannot be rebuilt in a server: define the class in a module"):
        OptimizerRecipe(factory="__main__:Mine", options={"lr": 1}).to_json()


def test_options_that_are_not_plain_cannot_go_to_a_server() -> None:
    recipe = OptimizerRecipe(factory="torch.optim:SGD", options={"lr": torch.tensor(0.1)})
    with pytest.raises(SpecError, match=r"torch.optim:SGD cannot be sent to a server: .*Use plain numbers"):
        recipe.to_json()
