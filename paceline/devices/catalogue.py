"""Turn `--device` into a placement."""

from paceline.devices import cpu, cuda, emulated
from paceline.devices.base import Demand, Placement
from paceline.errors import DeviceError
from paceline.grammar import choose

DEVICES = ("auto", "cpu", "cuda", "emulated:…")


def place(device: str, demand: Demand) -> Placement:
    """Slots for all processes of a run, or an error that suggests what would fit."""
    if emulated.is_emulated(device):
        return emulated.place(demand, emulated.names_of(device, demand.nodes), cpu.available_cores())
    choose(device, DEVICES, "device")
    gpus = cuda.available_gpus()
    if device == "cuda" and gpus == 0:
        raise DeviceError(
            "--device cuda: this machine shows no NVIDIA GPU. Use --device cpu, or see `paceline doctor`."
        )
    if device == "cuda" or (device == "auto" and gpus):
        return cuda.place(demand, gpus)
    return cpu.place(demand, cpu.available_cores())
