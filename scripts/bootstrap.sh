#!/bin/sh
# Install what is missing: packages of the system with apt-get, Python packages into .venv.
#
#   scripts/bootstrap.sh                 what building, converting and packaging need
#   scripts/bootstrap.sh --for-notes     also what the version rule and the release notes need: Python packages alone
#   scripts/bootstrap.sh --for-release   also what `invoke release` needs: cross compilers, emulators, Wine
#   scripts/bootstrap.sh --for-check     also what `make check` needs: clang, sanitizers, linters, transformers
#
# What is there is left alone, so a second run does nothing and needs no network.
set -eu
cd "$(dirname "$0")/.."

extras=quickstart
tools=no
case "${1-}" in
'') ;;
--for-notes) extras=release ;;
--for-release) extras=release tools=yes ;;
--for-check) extras=dev,models tools=yes ;;
*)
    echo "usage: bootstrap.sh [--for-notes | --for-release | --for-check]" >&2
    exit 2
    ;;
esac

# ---- packages of the system: tool to look for, package that has it --------------------------------------------

packages=
need() { # need TOOL PACKAGE...
    command -v "$1" >/dev/null 2>&1 && return
    shift
    packages="$packages $*"
}
need gcc gcc libc6-dev
need make make
need git git
need python3 python3
python3 -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python3-venv"
if [ "$tools" = yes ]; then
    need qemu-aarch64 qemu-user
    need busybox busybox
    need curl curl
    need dpkg-deb dpkg
    need fakeroot fakeroot
    need lintian lintian
    if [ "$(uname -m)" = x86_64 ]; then
        need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
        need arm-linux-gnueabihf-gcc gcc-arm-linux-gnueabihf libc6-dev-armhf-cross
        need x86_64-w64-mingw32-gcc-posix gcc-mingw-w64-x86-64-posix
        need wine wine wine64
    fi
fi
if [ "$extras" = dev,models ]; then
    need clang-14 clang-14
    need clang-format-14 clang-format-14
    need shellcheck shellcheck
    need cmake cmake
    if [ "$(uname -m)" = x86_64 ]; then
        [ -e /usr/lib/llvm-14/lib/clang ] && [ -n "$(find /usr/lib/llvm-14/lib/clang -name 'libclang_rt.fuzzer*' -print -quit)" ] ||
            packages="$packages libclang-rt-14-dev"
    fi
fi

if [ -n "$packages" ]; then
    root=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 && root=sudo
    fi
    if ! command -v apt-get >/dev/null 2>&1 || { [ "$(id -u)" != 0 ] && [ -z "$root" ]; }; then
        echo "error: missing packages:$packages" >&2
        echo "install them as root (Debian, Ubuntu: apt-get install$packages), then run this again" >&2
        exit 1
    fi
    echo "bootstrap: installing$packages"
    $root apt-get update -qq
    # shellcheck disable=SC2086  # a list of words
    DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends \
        -o DPkg::Lock::Timeout=300 $packages </dev/null >/dev/null
fi

# ---- Python packages: the extras of pyproject.toml, by their pins --------------------------------------------

stamp=.venv/krafla-extras
want="$extras $(cksum <pyproject.toml)"
if [ -x .venv/bin/python ] && grep -qxF "$want" "$stamp" 2>/dev/null; then
    echo "bootstrap: everything is there"
    exit 0
fi
[ -x .venv/bin/python ] || {
    echo "bootstrap: making .venv"
    python3 -m venv .venv
}
echo "bootstrap: installing the Python packages of pyproject.toml [$extras]"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[$extras]" </dev/null
echo "$want" >>"$stamp"
echo "bootstrap: done"
