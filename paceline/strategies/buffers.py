"""Synchronises buffers (BatchNorm statistics), which stay local during training."""

import torch
from torch import Tensor, nn

from paceline.strategies.group import Group


@torch.no_grad()
def share_buffers(model: nn.Module, group: Group) -> None:
    """Copy rank 0's buffers to all workers: all buffers as bytes in one broadcast, whatever their dtypes."""
    buffers = [buffer for buffer in model.buffers() if buffer.numel()]
    if not buffers or group.size == 1:
        return
    packed = torch.cat([_bytes(buffer) for buffer in buffers])
    group.broadcast(packed)
    for buffer, part in zip(buffers, torch.split(packed, [b.nbytes for b in buffers]), strict=True):
        # cloned, because a dtype can be viewed only at offsets that are multiples of its size
        buffer.copy_(part.clone().view(buffer.dtype).view(buffer.shape))


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().view(-1).view(torch.uint8)
