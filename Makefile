# Krafla.  Two commands for newcomers:
#
#   make quickstart   build for this CPU, convert a real small model, package, start it, ask it something
#   make check        install what the tests need and run everything that CI runs
#
# One build:
#
#   make ISA=avx2 [THREADS=1|pthread] [ASM=0|1] [CROSS=aarch64-linux-gnu-] [DEBUG=1] [EXTRA_CFLAGS=...] [all|test|kernels|units|e2e|lib]
#
# goes to build/<isa>[-<arch>|-windows][-pt][-asm][-dbg]/.  Flags come from runtime/kernels/isas.txt.  A compiler with
# another name than gcc is given with CC, as in CROSS=x86_64-w64-mingw32- CC=gcc-posix.
#
# Every build:
#
#   make test-all          test every instruction set, natively or emulated, and sum up
#   make test-sve          SVE with vectors of 128 and 512 bits; test-<session of nox> for any other
#   make guard-test        every x86 build on CPUs that are too old for it; guard-test-arm: every ARM build

ISA     ?=
THREADS ?= 1
ASM     ?= 0
CROSS   ?=
DEBUG   ?= 0
EXTRA_CFLAGS ?=
PYTHON  ?= $(if $(wildcard .venv/bin/python),.venv/bin/python,python3)

ifeq ($(origin CC),default)
CC = gcc
endif
TOOL := $(CROSS)$(CC)

ifneq ($(words $(CURDIR)),1)
$(error make cannot build in a folder whose path has spaces: move $(CURDIR))
endif

# ---- what is built, and for what -------------------------------------------------------------------------------

host   := $(shell uname -m)
target := $(if $(CROSS),$(firstword $(subst -, ,$(CROSS))),$(host))
system := $(if $(findstring mingw,$(TOOL)),windows)
ARCH   := $(patsubst amd64,x86_64,$(patsubst arm64,aarch64,$(patsubst arm%,armv7,$(target:arm64=aarch64))))

table  := runtime/kernels/isas.txt
row     = $(shell awk -F'|' -v isa='$(ISA)' -v arch='$(ARCH)' -v col=$(1) '!/^#/ {n=$$1; a=$$2; gsub(/ /,"",n); gsub(/ /,"",a); if (n==isa && a==arch) {gsub(/^ +| +$$/,"",$$col); print $$col}}' $(table))

guards := guard-test guard-test-arm
goals := $(filter-out quickstart check bootstrap clean compdb emulate test-% $(guards),$(or $(MAKECMDGOALS),all))
ifneq ($(goals),)
ifeq ($(ISA),)
$(error ISA is not set: make ISA=<isa>; $(table) lists them, e.g. make ISA=avx2)
endif
ifeq ($(strip $(call row,1)),)
$(error ISA=$(ISA) is not in $(table) for $(ARCH): see there, or name the other CPU's compiler, as in CROSS=aarch64-linux-gnu-)
endif
ifeq ($(wildcard runtime/kernels/$(ISA)/isa.h),)
$(error ISA=$(ISA) has no kernels yet: runtime/kernels/$(ISA) does not exist)
endif
endif

ifneq ($(filter-out 1 pthread,$(THREADS)),)
$(error THREADS=$(THREADS): is 1 or pthread; ml_run -t sets how many)
endif

class := $(call row,3)
flags := $(call row,4)
needs := $(call row,6)

B := build/$(ISA)$(if $(CROSS),-$(or $(system),$(ARCH)))$(if $(filter pthread,$(THREADS)),-pt)$(if $(filter 1,$(ASM)),-asm)$(if $(filter 1,$(DEBUG)),-dbg)

comma := ,

# ---- flags -----------------------------------------------------------------------------------------------------

# Float results are part of the contract: no contraction, no reassociation, no fast-math, ever.
WARN := -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wvla
BASE := $(WARN) \
        -ffp-contract=off -fno-math-errno -ffile-prefix-map=$(CURDIR)=. \
        -D_GNU_SOURCE -Iruntime/include -Iruntime/core -Iruntime/kernels $(if $(filter 1,$(ASM)),-Iruntime/kernels/$(ISA)/asm) -Iruntime/kernels/$(ISA) -Iruntime/kernels/tmpl
# Windows aligns the stack to 16 bytes, less than a spilled ymm register asks for.
align := $(if $(system),-Wa$(comma)-muse-unaligned-vector-move)
OPT  := $(if $(filter 1,$(DEBUG)),-O1 -g -fno-omit-frame-pointer,-O2 -DNDEBUG)
KOPT := $(if $(filter 1,$(DEBUG)),-O1 -g -fno-omit-frame-pointer,-O3 -DNDEBUG)
CORE_CFLAGS := $(BASE) $(OPT) -DKR_ISA='"$(ISA)"' -DKR_ISA_NEEDS='"$(needs)"' $(if $(filter pthread,$(THREADS)),-pthread) $(EXTRA_CFLAGS)
KERN_CFLAGS := $(BASE) $(KOPT) $(flags) $(align) -DKR_FUSED=$(if $(filter fused,$(class)),1,0) $(EXTRA_CFLAGS)
static  := $(if $(findstring -fsanitize,$(EXTRA_CFLAGS)),,-static)
LDFLAGS += $(static) $(if $(system),-Wl$(comma)--no-insert-timestamp,-Wl$(comma)--build-id=none -Wl$(comma)-z$(comma)noexecstack) $(if $(filter 1,$(DEBUG)),,-s) $(if $(filter pthread,$(THREADS)),-pthread) $(filter -fsanitize%,$(EXTRA_CFLAGS))

# ---- sources: every .c of a folder, except the ones of the other system -------------------------------------------

other   := $(if $(filter pthread,$(THREADS)),%_single.c,%_pthread.c) $(if $(system),%_posix.c,%_win32.c) $(if $(filter x86_64,$(ARCH)),%_arm.c,%_x86.c)
core    := $(filter-out $(other),$(wildcard runtime/core/*.c))
kernels := $(filter-out $(other),$(wildcard runtime/kernels/$(ISA)/*.c))
cli     := $(filter-out $(other) $(wildcard runtime/cli/ml_*.c),$(wildcard runtime/cli/*.c))
ref     := $(wildcard runtime/kernels/ref/*.c)
checks  := $(wildcard tests/kernels/*.c)
units   := $(wildcard tests/unit/*.c)
exe      := $(if $(system),.exe)
programs := $(patsubst runtime/cli/%.c,$(B)/%$(exe),$(wildcard runtime/cli/ml_*.c))
# The tests need POSIX: of Windows the programs are built, and nox -s windows runs them.
tests    := $(if $(system),,$(patsubst tests/unit/%.c,$(B)/%,$(units)) $(if $(checks),$(B)/checkkern))
fuzzers  := $(patsubst tests/fuzz/%.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))

# A fuzz target replays files by itself; FUZZ_MAIN= leaves main to libFuzzer (nox -s fuzz).
FUZZ_MAIN ?= tests/fuzz/replay.c

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
lib = $(call obj,$(core) $(kernels))

# ---- how the target's programs are run: as they are, or through the emulator of the target ------------------------

run_cpu := $(firstword $(call row,8))
export QEMU_CPU ?= $(if $(filter-out $(host),$(target)),$(filter-out -,$(run_cpu)))
emulator := $(if $(filter-out $(host),$(target)),$(if $(filter armv7,$(ARCH)),qemu-arm,qemu-$(ARCH)))
ifeq ($(QEMU_CPU),)
unexport QEMU_CPU
endif

.PHONY: FORCE all test kernels units e2e lib fuzz quickstart check bootstrap clean compdb emulate $(guards)
.SECONDARY:
all: $(programs) $(tests)
lib: $(B)/libkrafla.so
fuzz: $(fuzzers)

# Quick tests of one build: the kernels against the double-precision reference, then the C unit tests.
test: kernels units
kernels: $(B)/checkkern
	$(emulator) $<
units: $(tests) $(fuzzers) $(programs)
	@set -e; for t in $(filter-out %/checkkern,$(tests)); do echo "+ $(emulator) $$t"; $(emulator) $$t; done
	@set -e; for f in $(fuzzers); do c=tests/fuzz/corpus/$$(basename $$f); [ ! -d $$c ] || { echo "+ $(emulator) $$f $$c/*"; $(emulator) $$f $$c/*; }; done

# The programs of this build, end to end.
e2e: $(programs) $(B)/test_mlb
	@$(PYTHON) -c 'import pytest' 2>/dev/null || { echo 'error: pytest is missing: run scripts/bootstrap.sh --for-check' >&2; exit 1; }
	KRAFLA_BUILD=$(B) KRAFLA_EMULATOR='$(emulator)' $(PYTHON) -m pytest -q tests/e2e

$(programs): $(B)/%$(exe): $(B)/obj/runtime/cli/%.o $(call obj,$(cli)) $(lib)
	# $@
	@$(TOOL) -o $@ $^ $(LDFLAGS)
$(B)/checkkern: $(call obj,$(checks) $(ref) $(kernels)) $(B)/obj/runtime/core/pack.o $(B)/obj/runtime/core/error.o
	# $@
	@$(TOOL) -o $@ $^ $(LDFLAGS) -lm
$(patsubst tests/unit/%.c,$(B)/%,$(units)): $(B)/%: $(B)/obj/tests/unit/%.o $(lib)
	# $@
	@$(TOOL) -o $@ $^ $(LDFLAGS) -lm
$(fuzzers): $(B)/%: $(B)/obj/tests/fuzz/%.o $(call obj,$(FUZZ_MAIN)) $(lib)
	# $@
	@$(TOOL) -o $@ $^ $(LDFLAGS)
$(B)/libkrafla.so: $(patsubst $(B)/obj/%.o,$(B)/pic/%.o,$(lib)) runtime/krafla.map
	# $@
	@$(TOOL) -shared -o $@ $(filter %.o,$^) -Wl,--build-id=none -Wl,-z,noexecstack -Wl,--version-script=runtime/krafla.map $(if $(filter pthread,$(THREADS)),-pthread) $(if $(filter 1,$(DEBUG)),,-s)

# An object depends on the flags it was made with: a changed flag makes it again.
$(B)/flags: FORCE
	@mkdir -p $(B); echo '$(TOOL) $(CORE_CFLAGS) | $(KERN_CFLAGS) | $(LDFLAGS)' | cmp -s - $@ || echo '$(TOOL) $(CORE_CFLAGS) | $(KERN_CFLAGS) | $(LDFLAGS)' >$@
FORCE:

# Only kernels/<isa> gets the ISA's flags; the guard in main must run on any CPU of the architecture.
compile = @mkdir -p $(@D); $(TOOL) $(if $(findstring runtime/kernels/$(ISA)/,$<),$(KERN_CFLAGS),$(CORE_CFLAGS)) -MMD -MP $(1) -c $< -o $@
$(B)/obj/%.o: %.c $(B)/flags
	$(call compile)
$(B)/pic/%.o: %.c $(B)/flags
	$(call compile,-fPIC)

clean:
	rm -rf build dist

compdb:
	@$(PYTHON) scripts/compdb.py

quickstart check bootstrap:
	@sh scripts/$@.sh

# ---- every build: scripts/krafla_release knows how each is run here ------------------------------------------------

test-%: FORCE
	@PYTHONPATH=scripts $(PYTHON) -m krafla_release.testing $@
test-all: FORCE
	@PYTHONPATH=scripts $(PYTHON) -m krafla_release.check $@

guard-test:
	@PYTHONPATH=scripts $(PYTHON) -m krafla_release.emulated --guard x86_64

guard-test-arm:
	@PYTHONPATH=scripts $(PYTHON) -m krafla_release.emulated --guard aarch64 armv7

# The runner that masks CPUID and stands in for AVX-VNNI, and a program that tests it in both encodings.
E := build/emulate
emulate: $(addprefix $(E)/,vnnirun dot_forms_vex dot_forms_evex)
$(E)/vnnirun: $(addprefix tests/emulate/,vnnirun.c tracee.c vex.c levels.c tracee.h vex.h levels.h) Makefile
	@mkdir -p $(@D)
	$(CC) $(WARN) -O2 -D_GNU_SOURCE -o $@ $(filter %.c,$^)
$(E)/dot_forms_%: tests/emulate/dot_forms.c Makefile
	@mkdir -p $(@D)
	$(CC) $(WARN) -O2 -mavx2 -static -DENCODING='"%{$*%} "' -o $@ $<

-include $(if $(goals),$(shell find $(B) -name '*.d' 2>/dev/null))
