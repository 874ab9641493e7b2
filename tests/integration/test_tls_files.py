"""What is said of files that are no certificate, no key, or do not belong together."""

import subprocess
from pathlib import Path

import pytest

from tests.fixtures.certificates import Certificates, make_certificates
from tidegate.errors import SettingError
from tidegate_realtime.main.certifying import open_tls
from tidegate_realtime.settings import ServeSettings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def sound(folder: Path) -> Certificates:
    """Sound ones, and beside them what people mistake for them."""
    made = make_certificates(folder)
    key, encrypted = str(made.server_key), ("-aes256", "-passout", "pass:abcd")
    for arguments in (
        ("pkey", "-in", key, *encrypted, "-out", "pkcs8.key"),
        ("ec", "-in", key, *encrypted, "-out", "old.key"),
        ("pkey", "-in", key, "-outform", "DER", "-out", "der.key"),
        ("x509", "-in", str(made.server), "-outform", "DER", "-out", "der.pem"),
    ):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
    (folder / "empty.pem").touch()
    (folder / "cut.pem").write_bytes(made.server.read_bytes()[:200])
    return made


def settings(**files: Path) -> ServeSettings:
    return ServeSettings.model_validate(files)


def test_files_that_belong_together_are_taken(sound: Certificates) -> None:
    files = {"tls_cert": sound.server, "tls_key": sound.server_key, "tls_client_ca": sound.ca}
    assert open_tls(settings(**files)) == (sound.server, sound.server_key, sound.ca)
    assert open_tls(settings()) is None


@pytest.mark.parametrize(
    ("field", "name", "said"),
    [
        ("cert", "none.pem", "cannot be read: No such file or directory. Name a PEM file"),
        ("key", "none.key", "cannot be read: No such file or directory. Name a PEM file"),
        ("client_ca", "none.pem", "cannot be read: No such file or directory. Name a PEM file"),
        ("cert", "", "cannot be read: Is a directory. Name a PEM file"),
        ("cert", "empty.pem", "holds no certificate: PEM has a line -----BEGIN CERTIFICATE-----"),
        ("cert", "server.key", "holds no certificate"),
        ("client_ca", "client.key", "holds no certificate"),
        ("cert", "der.pem", "is in the binary form (DER); write it as PEM: openssl x509 -inform"),
        ("key", "der.key", "is in the binary form (DER); write it as PEM: openssl pkey -inform"),
        ("key", "server.pem", "holds no private key: PEM has a line -----BEGIN PRIVATE KEY-----"),
        ("key", "pkcs8.key", "is encrypted, and nobody types its passphrase at the start; write"),
        ("key", "old.key", "is encrypted, and nobody types its passphrase at the start; write"),
        ("key", "client.key", "is not the key of the first certificate in"),
        ("cert", "cut.pem", "pem lib"),
    ],
)
def test_each_mistake_names_its_setting_its_file_and_what_to_do(
    folder: Path, sound: Certificates, field: str, name: str, said: str
) -> None:
    files = {"tls_cert": sound.server, "tls_key": sound.server_key, "tls_client_ca": sound.ca}
    with pytest.raises(SettingError) as refused:
        open_tls(settings(**files | {f"tls_{field}": folder / name}))
    told = str(refused.value)
    assert f"serve.tls_{field}" in told
    assert str(folder / name) in told
    assert said in told


def test_the_advice_for_an_encrypted_key_is_true(folder: Path, sound: Certificates) -> None:
    with pytest.raises(SettingError, match="openssl pkey -in") as refused:
        open_tls(settings(tls_cert=sound.server, tls_key=folder / "pkcs8.key"))
    advice = str(refused.value).rpartition("write it without one: ")[2].split()
    subprocess.run([*advice, "-passin", "pass:abcd"], cwd=folder, check=True, capture_output=True)
    plain = folder / "pkcs8-plain.key"
    assert open_tls(settings(tls_cert=sound.server, tls_key=plain)) is not None
