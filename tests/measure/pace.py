"""Simulated step times: noise that remembers, with or without skew, after a warm-up."""

import functools

import numpy as np

from paceline.measure.series import Series, WorkerSeries

NOISES = ("normal", "long-tailed", "slow steps")


def ar1(random: np.random.Generator, runs: int, steps: int, correlation: float) -> Series:
    """Rows of standard normal noise, each value `correlation` of the last one and the rest new."""
    values = random.standard_normal((runs, steps))
    for step in range(1, steps):
        values[:, step] = correlation * values[:, step - 1] + np.sqrt(1 - correlation**2) * values[:, step]
    return values


def steady(random: np.random.Generator, runs: int, steps: int, correlation: float, noise: str) -> Series:
    """Step seconds around 1: 5 % noise, log-normal of 30 %, or 5 % noise with 3 % of the steps three times as long."""
    base = ar1(random, runs, steps, correlation)
    if noise == "long-tailed":
        return np.exp(0.3 * base)
    slow = np.where(random.random((runs, steps)) < 0.03, 3.0, 1.0) if noise == "slow steps" else 1.0
    return (1 + 0.05 * base) * slow


def warming_up(steps: int, fade: float) -> Series:
    """Seconds beyond the steady pace: two at first, a third of that after `fade` steps, and so on."""
    return 2 * np.exp(-np.arange(steps) / fade)


@functools.cache
def _endless(correlation: float, noise: str) -> Series:
    return steady(np.random.default_rng(99), 500, 1000, correlation, noise)


@functools.cache
def true_rate(correlation: float, noise: str, length: int) -> float:
    """The median rate of windows of `length` steps, one unit each, in a run without end."""
    if noise == "normal":
        return 1.0  # windows of symmetric noise have their median at its centre
    endless = _endless(correlation, noise)
    parts = endless[:, : endless.shape[1] // length * length].reshape(len(endless), -1, length)
    return float(np.median(1 / parts.mean(axis=2)))


def worker(step_seconds: Series, *, units: float = 1.0, begin: float = 0.0) -> WorkerSeries:
    """A worker that took these steps one after the other."""
    ends = begin + np.cumsum(step_seconds)
    counts = np.full(len(step_seconds), units)
    return WorkerSeries(begin=ends - step_seconds, end=ends, samples=counts, units=counts)
