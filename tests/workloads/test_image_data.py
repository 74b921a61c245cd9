"""The image data: readers of real files and generators, and that what they give can be learned from."""

import gzip
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from paceline.errors import DataError
from paceline.workloads import catalogue
from paceline.workloads.base import Examples
from paceline.workloads.data import digits, driving, folder, idx
from paceline.workloads.data.patterns import Patterns
from paceline.workloads.data.roads import Roads

needs_mnist = pytest.mark.skipif(folder.find(idx.MNIST) is None, reason="PACELINE_DATA has no mnist")
needs_driving = pytest.mark.skipif(folder.find(driving.FOLDERS) is None, reason="PACELINE_DATA has no driving")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Models this small run fastest on one thread, whatever else the machine does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _all(examples: Examples, count: int) -> tuple[Tensor, ...]:
    return examples.batch(np.arange(count))


def test_without_the_variable_there_is_no_folder(no_data: None) -> None:
    assert folder.root() is None
    assert folder.find(["mnist"]) is None


def test_the_first_existing_subfolder_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    (tmp_path / "third").mkdir()
    monkeypatch.setenv(folder.VARIABLE, str(tmp_path))
    assert folder.find(["first", "second", "third"]) == tmp_path / "second"
    assert folder.find(["first"]) is None


def test_a_data_folder_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(folder.VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"PACELINE_DATA=.*nowhere is not a folder"):
        folder.root()


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("vae:data=mnist", "set PACELINE_DATA to a folder that holds mnist"),
        ("vae:data=mnist", "use data=generated"),
        ("vae:data=fashion", "install Debian's package dataset-fashion-mnist"),
        ("vae:data=fashion", "not-installed"),
        ("pilotnet:data=real", "set PACELINE_DATA to a folder that holds driving"),
    ],
)
def test_data_that_was_asked_for_and_is_missing_is_refused_with_remedies(no_data: None, text: str, remedy: str) -> None:
    with pytest.raises(DataError) as error:
        catalogue.build(text).data()
    assert remedy in str(error.value)
    assert len(str(error.value).splitlines()) <= 2


def test_the_refusal_says_where_it_looked(no_data: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(folder.VARIABLE, str(tmp_path))
    with pytest.raises(DataError, match=str(tmp_path / "mnist")):
        catalogue.build("vae:data=mnist").data()


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("vae:samples=20", "generated digits (20 + 10,000)"),
        ("pilotnet", "generated roads (4,096 + 1,024)"),
        ("resnet18:samples=20,image=32,classes=5", "generated patterns, 32×32, 5 classes (20 + 2)"),
    ],
)
def test_without_data_the_workload_generates_it_and_says_so(no_data: None, text: str, source: str) -> None:
    data = catalogue.build(text).data()
    assert (data.source, data.generated) == (source, True)


@pytest.mark.parametrize("text", ["vae:data=generated,samples=60001", "pilotnet:data=generated,samples=4097"])
def test_more_samples_than_there_are_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"samples=\d+ is too many"):
        catalogue.build(text).data()


# The idx format.


def _idx(path: Path, array: np.ndarray) -> Path:
    content = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def _images(count: int, side: int = 28) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, side, side), dtype=np.uint8)


def _data_set(path: Path, suffix: str = "", *, labels: int = 7) -> Path:
    path.mkdir()
    for part, count in (("train", 7), ("t10k", 3)):
        _idx(path / f"{part}-images-idx3-ubyte{suffix}", _images(count))
        _idx(
            path / f"{part}-labels-idx1-ubyte{suffix}", np.arange(labels if part == "train" else count, dtype=np.uint8)
        )
    return path


@pytest.mark.parametrize("name", ["plain", "packed.gz"])
def test_an_idx_file_is_read_back_plain_or_gzipped(tmp_path: Path, name: str) -> None:
    images = _images(5)
    assert np.array_equal(idx.read(_idx(tmp_path / name, images), dimensions=3), images)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "another type": lambda content: content[:2] + b"\x0d" + content[3:],
    "other dimensions": lambda content: content[:3] + b"\x01" + content[4:],
    "truncated": lambda content: content[:-10],
    "too long": lambda content: content + b"\0",
    "half a header": lambda content: content[:6],
    "a header of huge sizes": lambda content: content[:4] + b"\xff" * 12,
    "empty": lambda content: b"",
}
GZIP_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[: len(content) // 2],
    "flipped bits": lambda content: content[:600] + bytes(255 - byte for byte in content[600:700]) + content[700:],
    "not gzip": gzip.decompress,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_idx_file_is_refused_by_name(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = _idx(tmp_path / "some-images", _images(20))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"some-images .*fetch it again"):
        idx.read(path, dimensions=3)


@pytest.mark.parametrize("damage", GZIP_DAMAGE.values(), ids=GZIP_DAMAGE.keys())
def test_a_damaged_gzip_file_is_refused_by_name(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = _idx(tmp_path / "some-images.gz", _images(20))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"some-images.gz cannot be read .*fetch it again"):
        idx.read(path, dimensions=3)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_vae_trains_on_the_users_mnist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, suffix: str) -> None:
    path = _data_set(tmp_path / "mnist", suffix)
    monkeypatch.setenv(folder.VARIABLE, str(tmp_path))
    data = catalogue.build("vae:samples=4").data()
    assert (data.source, data.generated) == (f"{path} (4 + 3 images)", False)
    images, labels = data.train.batch(np.array([3, 0]))
    expected = torch.from_numpy(_images(7)[[3, 0]])[:, None].float() / 255
    assert torch.equal(images, expected)
    assert labels.tolist() == [3, 0]


def test_without_mnist_the_vae_takes_fashion_mnist_from_debians_folder(
    no_data: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(idx, "DEBIAN_FASHION_MNIST", _data_set(tmp_path / "debian", ".gz"))
    assert catalogue.build("vae").data().source == f"{tmp_path / 'debian'} (7 + 3 images)"


def test_a_missing_idx_file_is_named(tmp_path: Path) -> None:
    path = _data_set(tmp_path / "mnist")
    (path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match=r"no t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz in"):
        idx.load(path, "t10k", 28)


def test_images_without_their_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has 7 images but .* has 6 labels"):
        idx.load(_data_set(tmp_path / "mnist", labels=6), "train", 28)


def test_images_of_another_size_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="images of 28×28 pixels: they must be 32×32"):
        idx.load(_data_set(tmp_path / "mnist"), "train", 32)


# The simulator's log.

HEADER = "center,left,right,steering,throttle,brake,speed"
WINDOWS = r"C:\Users\someone\data\IMG\{}, C:\Users\someone\left.jpg, C:\Users\someone\right.jpg, {}, 0, 0, 1E-05"
LINUX = "/home/someone/IMG/{},/home/someone/left.jpg,/home/someone/right.jpg,{},0,0,1"
RELATIVE = "IMG/{},IMG/left.jpg,IMG/right.jpg,{},0,0,1"
ANGLES = [0.0, -0.25, 0.5, 1.0, -1.0, 0.125]


def _drive(path: Path, form: str = WINDOWS, header: str = "") -> Path:
    """Six frames: blue sky, a grey road that is lighter from frame to frame, and a red hood."""
    (path / "IMG").mkdir(parents=True)
    rows = [header] if header else []
    for number, angle in enumerate(ANGLES):
        picture = np.zeros((160, 320, 3), dtype=np.uint8)
        picture[:60] = (0, 0, 255)
        picture[60:136] = 40 * number
        picture[136:] = (255, 0, 0)
        Image.fromarray(picture).save(path / "IMG" / f"center_{number}.jpg", quality=95)
        rows.append(form.format(f"center_{number}.jpg", angle))
    (path / driving.LOG).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("header", ["", HEADER])
@pytest.mark.parametrize("form", [WINDOWS, LINUX, RELATIVE])
def test_a_log_of_any_machine_finds_its_frames_beside_it(tmp_path: Path, form: str, header: str) -> None:
    train, validation = driving.load(_drive(tmp_path / "driving", form, header))
    assert _all(train, 5)[1].tolist() == [*ANGLES[:4], ANGLES[5]]
    assert _all(validation, 1)[1].tolist() == [ANGLES[4]]  # every fifth


def test_a_relative_path_outside_img_is_followed(tmp_path: Path) -> None:
    path = _drive(tmp_path / "driving", "frames/{},l,r,{},0,0,1")
    (path / "IMG").rename(path / "frames")
    assert driving.read(path / driving.LOG)[2].frame == path / "frames" / "center_2.jpg"


def test_the_columns_of_a_header_may_be_in_any_order(tmp_path: Path) -> None:
    path = _drive(tmp_path / "driving", "0.0,{},{}", "speed,Center,Steering")
    assert [shot.angle for shot in driving.read(path / driving.LOG)] == ANGLES


def test_a_frame_is_cropped_to_the_road_and_scaled(tmp_path: Path) -> None:
    train, _ = driving.load(_drive(tmp_path / "driving"))
    frames, angles = train.batch(np.array([4, 0, 4]))
    assert (frames.shape, frames.dtype, angles.dtype) == ((3, 3, 66, 200), torch.float32, torch.float32)
    inner = frames[:, :, 4:-4]  # the resize may blend in a row of sky or hood
    assert inner[1, 0].mean().item() == pytest.approx(-1.0, abs=0.02)  # black, in −1 … 1
    assert inner[0, 0].mean().item() == pytest.approx(5 * 40 / 127.5 - 1, abs=0.02)
    assert inner[:, 1:].abs().max() < 0.05  # grey: neither sky nor hood
    assert torch.equal(frames[0], frames[2])


def test_a_frame_is_decoded_once(tmp_path: Path) -> None:
    path = _drive(tmp_path / "driving")
    train, _ = driving.load(path)
    first = _all(train, 5)[0]
    for frame in (path / "IMG").iterdir():
        frame.unlink()
    assert torch.equal(_all(train, 5)[0], first)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("IMG/center_1.jpg,l,r", "Row 3 of .*driving_log.csv has 3 columns"),
        ("IMG/center_1.jpg,l,r,left,0,0,1", "Row 3 of .*driving_log.csv has the steering angle 'left'"),
        ("IMG/center_1.jpg,l,r,nan,0,0,1", "Row 3 of .*driving_log.csv has the steering angle 'nan'"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: str, message: str) -> None:
    log = _drive(tmp_path / "driving", header=HEADER) / driving.LOG
    lines = log.read_text(encoding="utf-8").splitlines()
    log.write_text("\n".join([*lines[:2], row, *lines[3:]]), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        driving.read(log)


def test_missing_frames_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    path = _drive(tmp_path / "driving")
    (path / "IMG" / "center_1.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of the 6 frames of .* missing, first .*center_1.jpg of row 2"):
        driving.load(path)
    (path / "IMG" / "center_4.jpg").unlink()
    with pytest.raises(DataError, match=r"2 of the 6 frames of .* missing, first .*center_1.jpg of row 2"):
        driving.load(path)


def test_a_log_none_of_whose_frames_is_there_names_the_folder(tmp_path: Path) -> None:
    path = _drive(tmp_path / "driving")
    for frame in (path / "IMG").iterdir():
        frame.unlink()
    with pytest.raises(DataError, match=r"None of the 6 frames of .* is in .*IMG"):
        driving.load(path)


def test_an_unreadable_frame_is_named_with_its_row(tmp_path: Path) -> None:
    path = _drive(tmp_path / "driving")
    frame = path / "IMG" / "center_2.jpg"
    for damaged in (frame.read_bytes()[:400], b"no picture"):
        frame.write_bytes(damaged)
        train, _ = driving.load(path)
        with pytest.raises(DataError, match=r"Row 3: .*center_2.jpg cannot be read"):
            _all(train, 5)


def test_a_missing_or_short_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"driving_log.csv cannot be read"):
        driving.load(tmp_path)
    (tmp_path / driving.LOG).write_text(HEADER + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="has 0 rows: at least 5"):
        driving.load(tmp_path)


GENERATED: dict[str, Callable[[int], Examples]] = {
    "digits": lambda seed: idx.ByteImages(*digits.generate(3000, seed=seed)),
    "roads": lambda seed: Roads(640, seed=seed),
    "patterns": lambda seed: Patterns(3000, 32, 10, seed=seed),
}


@pytest.mark.parametrize("make", GENERATED.values(), ids=GENERATED.keys())
def test_generated_data_is_the_same_twice_and_another_for_validation(make: Callable[[int], Examples]) -> None:
    first, again, other = (_all(make(seed), 50) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert len(torch.unique(torch.cat([first[0], other[0]]).flatten(1), dim=0)) == 100


@pytest.mark.parametrize("make", GENERATED.values(), ids=GENERATED.keys())
def test_a_generated_sample_depends_on_its_index_alone(make: Callable[[int], Examples]) -> None:
    examples = make(0)
    whole = _all(examples, 50)
    some = examples.batch(np.array([49, 7, 7]))
    assert all(torch.equal(part, tensor[[49, 7, 7]]) for part, tensor in zip(some, whole, strict=True))


def test_fewer_generated_samples_are_the_first_of_more() -> None:
    few, many = digits.generate(200, seed=0, first=20), digits.generate(200, seed=0)
    assert all(np.array_equal(a, b[:20]) for a, b in zip(few, many, strict=True))
    assert torch.equal(_all(Roads(20, seed=0), 20)[0], _all(Roads(200, seed=0), 20)[0])


def test_generated_pixels_are_in_the_range_of_real_ones() -> None:
    images = _all(GENERATED["digits"](0), 200)[0]
    frames, angles = _all(Roads(200, seed=0), 200)
    assert (images.min().item(), images.max().item()) == (0, 1)
    assert frames.abs().max() <= 1
    assert angles.abs().max() <= 1


def _fit(make: Callable[[int], Examples], model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]) -> nn.Module:
    train = make(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for step in range(60):
        inputs, targets = train.batch(np.arange(step * 64, step * 64 + 64) % len(train))
        optimizer.zero_grad()
        loss(model(inputs), targets).backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("name", ["digits", "patterns"])
def test_generated_classes_can_be_learned(name: str) -> None:
    torch.manual_seed(0)
    model = _fit(GENERATED[name], nn.Sequential(nn.Flatten(), nn.LazyLinear(10)), F.cross_entropy)
    inputs, labels = _all(GENERATED[name](1), 500)
    assert (model(inputs).argmax(1) == labels).float().mean() > 0.6  # guessing gives 0.1


def test_the_steering_angle_of_generated_roads_can_be_learned() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.AvgPool2d(3), nn.Flatten(), nn.LazyLinear(1), nn.Flatten(0))
    _fit(GENERATED["roads"], model, F.mse_loss)
    frames, angles = _all(GENERATED["roads"](1), 200)
    assert F.mse_loss(model(frames), angles) < 0.3 * angles.var()  # the variance is the error of the mean angle


@needs_mnist
def test_real_mnist_is_whole() -> None:
    data = catalogue.build("vae:data=mnist").data()
    assert data.validation is not None
    assert (len(data.train), len(data.validation)) == (60_000, 10_000)
    images, labels = _all(data.train, 10_000)
    assert images.mean().item() == pytest.approx(0.1307, abs=0.002)  # the known mean pixel of MNIST
    assert labels[:5].tolist() == [5, 0, 4, 1, 9]


@needs_driving
def test_a_real_drive_is_read_whole() -> None:
    data = catalogue.build("pilotnet:data=real").data()
    assert data.validation is not None
    frames, angles = data.validation.batch(np.arange(0, len(data.validation), 20))
    assert frames.abs().max() <= 1
    assert frames.std() > 0.1
    assert angles.abs().max() <= 1
