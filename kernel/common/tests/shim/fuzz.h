/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fuzz targets in userspace. A *_fuzz.c is a function of bytes, which stops the
 * program where a property does not hold. It is built in two ways:
 *
 * - by scripts/fuzz with libFuzzer, which looks for inputs that do;
 * - by scripts/test-c with FUZZ_REPLAY, as a program that takes files or
 *   directories of inputs, gives each to the target and prints TAP. It exits 1
 *   if there was no input.
 *
 * What the inputs are is written above the target. Those that are kept lie in
 * corpus/TARGET beside it.
 */
#ifndef SHIM_FUZZ_H
#define SHIM_FUZZ_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#define FUZZ_CHECK(condition) do {					\
	if (condition)							\
		break;							\
	fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
	abort();							\
} while (0)

/* The rest of an input, from which a target takes what it needs. */
struct fuzz_input {
	const u8 *at;
	size_t left;
};

/* A number of @bytes bytes; with less left, the ones that are missing are 0. */
static inline u64 fuzz_number(struct fuzz_input *in, unsigned int bytes)
{
	size_t n = in->left < bytes ? in->left : bytes;
	u64 number = 0;

	memcpy(&number, in->at, n);
	in->at += n;
	in->left -= n;
	return number;
}

/* As fuzz_number(), in a range. */
static inline u64 fuzz_between(struct fuzz_input *in, unsigned int bytes, u64 least,
			       u64 most)
{
	u64 number = fuzz_number(in, bytes);

	return most - least == U64_MAX ? number : least + number % (most - least + 1);
}

/*
 * What is left as a text: a copy of just its length, with a zero byte behind it,
 * so that the address sanitizer sees any access beyond. To be freed.
 */
static inline char *fuzz_text(const struct fuzz_input *in)
{
	char *text = malloc(in->left + 1);

	memcpy(text, in->at, in->left);
	text[in->left] = '\0';
	return text;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

#ifdef FUZZ_REPLAY
static unsigned int fuzz_replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	u8 *data = NULL;
	size_t size = 0, n;
	u8 chunk[4096];

	if (!file) {
		perror(path);
		exit(1);
	}
	while ((n = fread(chunk, 1, sizeof(chunk), file))) {
		data = realloc(data, size + n);
		memcpy(data + size, chunk, n);
		size += n;
	}
	fclose(file);
	/* The last line of the log says which input it was. */
	printf("# %s\n", path);
	LLVMFuzzerTestOneInput(data ?: (const u8 *)"", size);
	free(data);
	return 1;
}

static unsigned int fuzz_replay(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned int nr = 0;
	char name[4096];

	if (!dir)
		return fuzz_replay_file(path);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		nr += fuzz_replay(name);
	}
	closedir(dir);
	return nr;
}

int main(int argc, char **argv)
{
	unsigned int nr = 0;
	int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n");
	for (i = 1; i < argc; i++)
		nr += fuzz_replay(argv[i]);
	printf("%sok 1 - %u inputs\n1..1\n", nr ? "" : "not ", nr);
	return !nr;
}
#endif

#define FUZZ_TARGET(fn)						\
	int LLVMFuzzerTestOneInput(const u8 *data, size_t size)	\
	{							\
		struct fuzz_input in = { data, size };		\
								\
		fn(&in);					\
		return 0;					\
	}							\
	struct shim_nothing

#endif
