// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of layout.h: as KUnit on kernels that have it, and as a userspace program
 * under ASan and UBSan. The BTF is that of a small block layer, built here;
 * layout_sim.c takes that of real kernels.
 */
#include <kunit/test.h>
#include <linux/slab.h>

/* As in isolio_private.h. */
struct isolio_layout {
	char type[48];
	char member[48];
	u32 offset;
	u32 size;
};

#define LAYOUT_INIT
#include "../layout.h"

#define MAX_WORDS	256
#define MAX_STRINGS	512

/* BTF that is being put together. */
static struct {
	struct btf_header head;
	u32 words[MAX_WORDS];
	char strings[MAX_STRINGS];
	u32 nr_words, nr_strings, nr_types;
} blob;

/* One piece of memory with all of it, and the comparison. */
static u8 *data;
static size_t data_len;
static struct layout_check *check;
static u32 *places;

static u32 add_string(const char *text)
{
	u32 at = blob.nr_strings;

	memcpy(blob.strings + at, text, strlen(text) + 1);
	blob.nr_strings += strlen(text) + 1;
	return at;
}

static u32 add_type(const char *name, u32 kind, bool flag, u32 vlen, u32 size_or_type)
{
	blob.words[blob.nr_words++] = add_string(name);
	blob.words[blob.nr_words++] = (u32)flag << 31 | kind << 24 | vlen;
	blob.words[blob.nr_words++] = size_or_type;
	return ++blob.nr_types;
}

static void add_words(u32 a, u32 b, u32 c)
{
	blob.words[blob.nr_words++] = a;
	blob.words[blob.nr_words++] = b;
	blob.words[blob.nr_words++] = c;
}

static void add_member(const char *name, u32 type, u32 byte)
{
	add_words(add_string(name), type, byte * 8);
}

/* What make_kernel() may do in another way. */
enum change {
	SAME,
	MOVED,		/* a member is where another was */
	LARGER,		/* the structure ends later */
	WIDER,		/* a member has more bytes */
	RENAMED,	/* a member has another name */
	BITFIELD,	/* a member became a bit-field */
	PARAMETER,	/* a function pointer has another parameter */
	MORE_PARAMS,	/* a function has one more */
	RESULT,		/* a function returns something else */
	CONSTANT,	/* a parameter points to what is const */
	NO_STRUCT,	/* one is declared, and not defined */
	NO_FUNC,
	UNNAMED,	/* what is in an unnamed structure lies elsewhere */
	TWICE,		/* a second structure of the same name differs */
	NR_CHANGES,
};

static void add_queue(enum change change, u32 int_t, u32 inner, u32 array, u32 run)
{
	add_type("queue", BTF_KIND_STRUCT, change == BITFIELD, 4, change == LARGER ? 56 : 48);
	add_member(change == RENAMED ? "height" : "depth", int_t, change == MOVED ? 4 : 0);
	if (change == BITFIELD)
		blob.words[blob.nr_words - 1] |= 5U << 24;
	add_member("", inner, 8);
	add_member("ids", array, 24);
	add_member("run", run, 40);
}

/*
 * struct queue { int depth; struct { u64 word; union { void *ptr; }; };
 *		  int ids[3]; int (*run)(struct queue *, ...) };
 * int enroll(struct queue *);
 */
static void make_kernel(enum change change)
{
	u32 int_t, u64_t, proto, func_proto, queue, ptr, inner, other, array, run, konst;

	memset(&blob, 0, sizeof(blob));
	add_string("");
	int_t = add_type("int", BTF_KIND_INT, false, 0, 4);
	blob.words[blob.nr_words++] = 32;
	u64_t = add_type("u64", BTF_KIND_TYPEDEF, false, 0, 3);
	add_type("unsigned long", BTF_KIND_INT, false, 0, 8);
	blob.words[blob.nr_words++] = 64;
	queue = blob.nr_types + 10;	/* the tenth from here */

	ptr = add_type("", BTF_KIND_PTR, false, 0, queue);
	konst = add_type("", BTF_KIND_CONST, false, 0, queue);
	other = add_type("", BTF_KIND_PTR, false, 0, konst);
	array = add_type("", BTF_KIND_ARRAY, false, 0, 0);
	add_words(int_t, int_t, change == WIDER ? 4 : 3);
	proto = add_type("", BTF_KIND_FUNC_PROTO, false, 2, int_t);
	add_words(0, change == PARAMETER ? u64_t : ptr, 0);
	blob.words[blob.nr_words++] = 0;	/* "..." */
	run = add_type("", BTF_KIND_PTR, false, 0, proto);
	inner = add_type("", BTF_KIND_UNION, false, 1, 8);
	add_member("ptr", ptr, 0);
	inner = add_type("", BTF_KIND_STRUCT, false, 2, 16);
	add_member("word", u64_t, change == UNNAMED ? 8 : 0);
	add_member("", inner - 1, change == UNNAMED ? 0 : 8);
	func_proto = add_type("", BTF_KIND_FUNC_PROTO, false, change == MORE_PARAMS ? 2 : 1,
			      change == RESULT ? u64_t : int_t);
	blob.words[blob.nr_words++] = 0;
	blob.words[blob.nr_words++] = change == CONSTANT ? other : ptr;
	if (change == MORE_PARAMS) {
		blob.words[blob.nr_words++] = 0;
		blob.words[blob.nr_words++] = int_t;
	}
	if (change == NO_STRUCT)
		add_type("queue", BTF_KIND_FWD, false, 0, 0);
	else
		add_queue(change, int_t, inner, array, run);
	add_type(change == NO_FUNC ? "enlist" : "enroll", BTF_KIND_FUNC, false, 1, func_proto);
	if (change == TWICE) {
		add_type("queue", BTF_KIND_STRUCT, false, 1, 48);
		add_member("depth", int_t, 0);
	}

	blob.head.magic = BTF_MAGIC;
	blob.head.version = BTF_VERSION;
	blob.head.hdr_len = sizeof(blob.head);
	blob.head.type_len = blob.nr_words * sizeof(u32);
	blob.head.str_off = blob.head.type_len;
	blob.head.str_len = blob.nr_strings;

	data_len = sizeof(blob.head) + blob.head.type_len + blob.head.str_len;
	memcpy(data, &blob.head, sizeof(blob.head));
	memcpy(data + sizeof(blob.head), blob.words, blob.head.type_len);
	memcpy(data + sizeof(blob.head) + blob.head.type_len, blob.strings, blob.nr_strings);
}

#define NR_FACTS	10

/* What a module was built with that belongs to make_kernel(SAME). */
static struct isolio_layout facts[NR_FACTS];

static u32 sum(const char *text)
{
	return layout_hash(LAYOUT_FNV_START, text);
}

static void make_record(void)
{
	const struct isolio_layout record[NR_FACTS] = {
		{ LAYOUT_TITLE, LAYOUT_VERSION, NR_FACTS, sizeof(struct isolio_layout) },
		{ "queue", "", 0, 48 },
		{ "queue", "depth", 0, 4 },
		{ "queue", "word", 8, 8 },
		{ "queue", "ptr", 16, 8 },
		{ "queue", "ids", 24, 12 },
		{ "queue", "run", 40, 8 },
		{ "queue", "run()", sum("(i:int;,*s:queue;,.)"), 2 },
		{ "", "enroll()", sum("(i:int;,*s:queue;)"), 1 },
		{ "", "enroll()", sum("(i:int;,*s:queue;)"), 1 },
	};

	memcpy(facts, record, sizeof(facts));
}

static int compare_bytes(const void *btf, size_t len, const struct isolio_layout *record, u32 nr)
{
	u32 room;
	int ret;

	memset(check, 0, sizeof(*check));
	ret = layout_open(check, btf, len);
	if (ret)
		return ret;
	ret = layout_group(check, record, nr);
	if (ret)
		return ret;
	room = layout_max_types(check);
	places = kvmalloc_array(room, sizeof(*places), GFP_KERNEL);
	if (!places)
		return -ENOMEM;
	ret = layout_index(check, places);
	if (!ret)
		ret = layout_compare(check);
	kvfree(places);
	return ret;
}

static int compare(void)
{
	return compare_bytes(data, data_len, facts, NR_FACTS);
}

static int layout_test_init(struct kunit *test)
{
	data = kzalloc(sizeof(blob), GFP_KERNEL);
	check = kvzalloc(sizeof(*check), GFP_KERNEL);
	make_record();
	return data && check ? 0 : -ENOMEM;
}

static void layout_test_exit(struct kunit *test)
{
	kfree(data);
	kvfree(check);
}

static const struct difference {
	enum change change;
	const char *why;
} differences[NR_CHANGES] = {
	{ SAME, "" },
	{ MOVED, "struct queue: depth is at offset 0, this kernel has it at 4" },
	{ LARGER, "struct queue has 48 bytes, this kernel's has 56" },
	{ WIDER, "struct queue: ids has 12 bytes, this kernel's has 16" },
	{ RENAMED, "struct queue: this kernel's has no member depth" },
	{ BITFIELD, "struct queue: depth is at offset 0, this kernel has it at 0 as a bit-field" },
	{ PARAMETER, "struct queue: this kernel's run() has another prototype" },
	{ MORE_PARAMS, "this kernel's enroll() has another prototype" },
	{ RESULT, "this kernel's enroll() has another prototype" },
	{ CONSTANT, "this kernel's enroll() has another prototype" },
	{ NO_STRUCT, "this kernel has no struct queue" },
	{ NO_FUNC, "this kernel has no enroll()" },
	{ UNNAMED, "struct queue: word is at offset 8, this kernel has it at 16" },
	{ TWICE, "struct queue: this kernel's has no member word" },
};

static void difference_desc(const struct difference *d, char *desc)
{
	strscpy(desc, *d->why ? d->why : "none", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(difference, differences, difference_desc);

/* Each difference is found, and named; where there is none, none is. */
static void differences_are_named(struct kunit *test)
{
	const struct difference *d = test->param_value;

	make_kernel(d->change);
	KUNIT_EXPECT_EQ(test, compare(), d->change == SAME ? 0 : -ENOEXEC);
	KUNIT_EXPECT_STREQ(test, check->why, d->why);
}

/* Any number of the record that is another one is a difference. */
static void record_is_compared_in_full(struct kunit *test)
{
	u32 i;

	make_kernel(SAME);
	KUNIT_ASSERT_EQ(test, compare(), 0);
	for (i = 0; i < NR_FACTS; i++) {
		facts[i].size++;
		KUNIT_EXPECT_NE(test, compare(), 0);
		facts[i].size--;
		/* A structure as a whole has no offset. */
		if (i == 1)
			continue;
		facts[i].offset++;
		KUNIT_EXPECT_NE(test, compare(), 0);
		facts[i].offset--;
	}
	KUNIT_EXPECT_EQ(test, compare(), 0);
}

static void damaged_record_is_refused(struct kunit *test)
{
	make_kernel(SAME);
	KUNIT_EXPECT_EQ(test, compare_bytes(data, data_len, facts, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, compare_bytes(data, data_len, facts, NR_FACTS - 1), -EINVAL);
	facts[0].member[0]++;
	KUNIT_EXPECT_EQ(test, compare(), -EINVAL);
	make_record();
	memset(facts[3].member, 'x', sizeof(facts[3].member));
	KUNIT_EXPECT_EQ(test, compare(), -EINVAL);
	make_record();
	memset(facts[8].member, 0, sizeof(facts[8].member));
	KUNIT_EXPECT_EQ(test, compare(), -EINVAL);
	KUNIT_EXPECT_STREQ(test, check->why, "its layout record is damaged");
}

/* Of BTF that ends too early, nothing behind its end is read. */
static void cut_off_btf_is_refused(struct kunit *test)
{
	size_t len;
	u8 *copy;

	make_kernel(SAME);
	for (len = 0; len < data_len; len++) {
		copy = kzalloc(len + 1, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, copy);
		memcpy(copy, data, len);
		KUNIT_EXPECT_EQ(test, compare_bytes(copy, len, facts, NR_FACTS), -EINVAL);
		kfree(copy);
	}
}

/* A header that says what is not so. */
static void damaged_header_is_refused(struct kunit *test)
{
	struct btf_header *head = (void *)data;
	u32 i;

	for (i = 0; i < 10; i++) {
		make_kernel(SAME);
		switch (i) {
		case 0:
			head->magic++;
			break;
		case 1:
			head->version++;
			break;
		case 2:
			head->hdr_len = 20;
			break;
		case 3:
			head->hdr_len = U32_MAX;
			break;
		case 4:
			head->type_off = 2;
			break;
		case 5:
			head->type_len = U32_MAX;
			break;
		case 6:
			head->str_off = U32_MAX;
			break;
		case 7:
			head->str_len = 0;
			break;
		case 8:
			head->str_len--;
			break;
		case 9:
			head->type_len -= 4;
			break;
		}
		KUNIT_EXPECT_EQ(test, compare(), -EINVAL);
	}
}

/* Types that lead to themselves, and ones that are too deep, come to an end. */
static void loops_end(struct kunit *test)
{
	u32 *words = (u32 *)(data + sizeof(struct btf_header));
	u32 i, *loop = NULL;

	make_kernel(SAME);
	/* u64, which is a typedef, of itself; every structure refers to it. */
	for (i = 0; i < blob.nr_words; i++)
		if (words[i] == BTF_KIND_TYPEDEF << 24)
			loop = &words[i + 1];
	KUNIT_ASSERT_NOT_NULL(test, loop);
	*loop = 2;
	KUNIT_EXPECT_EQ(test, compare(), -ENOEXEC);
	KUNIT_EXPECT_STREQ(test, check->why, "struct queue: word has 8 bytes, this kernel's has 0");
}

static u32 next_random(u32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Whatever the BTF says, nothing outside of it is read, and there is an end. */
static void random_btf_does_no_harm(struct kunit *test)
{
	u32 round, flips, state = 1;
	int refused = 0;

	for (round = 0; round < 20000; round++) {
		make_kernel(SAME);
		for (flips = 1 + next_random(&state) % 4; flips; flips--)
			data[next_random(&state) % data_len] ^= 1 << next_random(&state) % 8;
		refused += compare() != 0;
	}
	KUNIT_EXPECT_GT(test, refused, 10000);
}

static struct kunit_case layout_cases[] = {
	KUNIT_CASE_PARAM(differences_are_named, difference_gen_params),
	KUNIT_CASE(record_is_compared_in_full),
	KUNIT_CASE(damaged_record_is_refused),
	KUNIT_CASE(cut_off_btf_is_refused),
	KUNIT_CASE(damaged_header_is_refused),
	KUNIT_CASE(loops_end),
	KUNIT_CASE(random_btf_does_no_harm),
	{ }
};

static struct kunit_suite layout_suite = {
	.name = "isolio_layout",
	.init = layout_test_init,
	.exit = layout_test_exit,
	.test_cases = layout_cases,
};

kunit_test_suite(layout_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of isolio's comparison of layouts");
