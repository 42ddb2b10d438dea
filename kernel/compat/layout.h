/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether a layout record is true of a kernel, as that kernel's BTF describes it.
 *
 * A record is what a module was compiled with: sizes of structures, offsets and
 * sizes of their members, prototypes of functions. `isolio kmod header` writes
 * it, with struct isolio_layout, into isolio_private.h; there are four kinds of
 * entry:
 *
 *	{struct, "",         0,        size in bytes}
 *	{struct, member,     offset,   size in bytes}
 *	{struct, "member()", checksum, number of parameters}	a function pointer
 *	{"",     "name()",   checksum, number of parameters}	a function
 *
 * Entries of one structure follow each other. BTF is types in a row, numbered
 * from 1, and the strings that they name; Documentation/bpf/btf.rst has the format.
 *
 * This is a pure function of both: it takes no lock and allocates nothing. No
 * number of the BTF is trusted: every type is checked to lie in its section
 * before it is looked at, and loops and recursion have limits.
 */
#ifndef _ISOLIO_LAYOUT_H
#define _ISOLIO_LAYOUT_H

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
#include <uapi/linux/btf.h>

/* The code is called by a module's init alone; tests call it at any time. */
#ifndef LAYOUT_INIT
#define LAYOUT_INIT	__init
#endif

#define LAYOUT_TITLE		"isolio layout"
#define LAYOUT_VERSION		"2"

/* Of the BTF's header, which newer kernels make longer. */
#define LAYOUT_HEADER		(offsetof(struct btf_header, str_len) + sizeof(u32))

#define LAYOUT_MAX_GROUPS	256	/* structures and functions of a record */
#define LAYOUT_NR_HEADS		256
#define LAYOUT_NONE		U16_MAX
#define LAYOUT_NO_SIZE		U64_MAX
#define LAYOUT_MAX_STEPS	100000	/* types looked at for one entry */
#define LAYOUT_MAX_DEPTH	8	/* prototypes in each other, unnamed structures too */

#define LAYOUT_FNV_START	2166136261U
#define LAYOUT_FNV_PRIME	16777619U

/* A row of entries about one structure or one function. */
struct layout_group {
	const struct isolio_layout *facts;
	u32 nr;
	u32 hash;		/* of the name */
	u16 next;		/* group with the same head, or LAYOUT_NONE */
	bool seen;		/* the kernel has one of this name */
};

/* One comparison. The caller zeroes it, and owns the memory it points to. */
struct layout_check {
	const u8 *types;
	u32 types_len;		/* bytes */
	const char *strings;
	u32 strings_len;	/* bytes; the last is 0 */
	u32 *at;		/* of each type: its place in types */
	u32 nr;			/* types */

	struct layout_group groups[LAYOUT_MAX_GROUPS];
	u32 nr_groups;
	u16 heads[LAYOUT_NR_HEADS];

	u32 steps;		/* left for the present entry */
	char why[256];		/* the first difference, or what is damaged */
};

/* Where a structure has a member. */
struct layout_member {
	u32 bits;		/* from the start of the structure */
	u32 type;
	bool bitfield;
};

#define layout_fail(c, err, ...) \
	(scnprintf((c)->why, sizeof((c)->why), __VA_ARGS__), (err))

/* FNV-1a, which continues from @hash. */
static LAYOUT_INIT u32 layout_hash(u32 hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (u8)*text) * LAYOUT_FNV_PRIME;
	return hash;
}

static LAYOUT_INIT const char *layout_name(const struct layout_check *c, u32 off)
{
	return off < c->strings_len ? c->strings + off : "";
}

/* NULL for void, and for a number that no type has. */
static LAYOUT_INIT const struct btf_type *layout_type(const struct layout_check *c, u32 id)
{
	return id && id <= c->nr ? (const void *)(c->types + c->at[id - 1]) : NULL;
}

static LAYOUT_INIT bool layout_is_composite(const struct btf_type *t)
{
	u32 kind = BTF_INFO_KIND(t->info);

	return kind == BTF_KIND_STRUCT || kind == BTF_KIND_UNION;
}

/* What follows a type's head, in bytes; negative for an unknown kind. */
static LAYOUT_INIT s64 layout_tail(const struct btf_type *t)
{
	u64 vlen = BTF_INFO_VLEN(t->info);

	switch (BTF_INFO_KIND(t->info)) {
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		return 0;
	case BTF_KIND_INT:
		return sizeof(u32);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return vlen * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return vlen * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return vlen * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO:
		return vlen * sizeof(struct btf_param);
	case BTF_KIND_VAR:
		return sizeof(struct btf_var);
	case BTF_KIND_DATASEC:
		return vlen * sizeof(struct btf_var_secinfo);
	case BTF_KIND_DECL_TAG:
		return sizeof(struct btf_decl_tag);
	}
	return -1;
}

/* Finds the two sections. @data is aligned to 4 bytes. */
static LAYOUT_INIT int layout_open(struct layout_check *c, const void *data, size_t len)
{
	const struct btf_header *head = data;
	u64 types, strings;

	if (len < LAYOUT_HEADER || head->magic != BTF_MAGIC || head->version != BTF_VERSION ||
	    head->hdr_len < LAYOUT_HEADER)
		return layout_fail(c, -EINVAL, "BTF has an unknown format");

	types = (u64)head->hdr_len + head->type_off;
	strings = (u64)head->hdr_len + head->str_off;
	if (types % sizeof(u32) || types + head->type_len > len ||
	    strings + head->str_len > len || !head->str_len)
		return layout_fail(c, -EINVAL, "damaged BTF: a section lies outside of it");

	c->types = (const u8 *)data + types;
	c->types_len = head->type_len;
	c->strings = (const char *)data + strings;
	c->strings_len = head->str_len;
	if (c->strings[c->strings_len - 1])
		return layout_fail(c, -EINVAL, "damaged BTF: its strings have no end");
	return 0;
}

/* How many numbers layout_index() may need room for. */
static LAYOUT_INIT u32 layout_max_types(const struct layout_check *c)
{
	return c->types_len / sizeof(struct btf_type) + 1;
}

/* Notes in @at where each type is: from here on each of them is whole. */
static LAYOUT_INIT int layout_index(struct layout_check *c, u32 *at)
{
	u32 pos = 0;
	s64 tail;

	c->at = at;
	for (c->nr = 0; pos < c->types_len; c->nr++) {
		const struct btf_type *t = (const void *)(c->types + pos);

		if (c->types_len - pos < sizeof(*t))
			return layout_fail(c, -EINVAL, "damaged BTF: type %u is cut off",
					   c->nr + 1);
		tail = layout_tail(t);
		if (tail < 0)
			return layout_fail(c, -EINVAL,
					   "BTF has type %u of kind %u, which is unknown",
					   c->nr + 1, (u32)BTF_INFO_KIND(t->info));
		if (c->types_len - pos - sizeof(*t) < (u64)tail)
			return layout_fail(c, -EINVAL, "damaged BTF: type %u is cut off",
					   c->nr + 1);
		at[c->nr] = pos;
		pos += sizeof(*t) + tail;
	}
	return 0;
}

/* The name that BTF has for what @fact is about, in @buf for functions. */
static LAYOUT_INIT const char *layout_subject(const struct isolio_layout *fact, char *buf)
{
	if (fact->type[0])
		return fact->type;
	memcpy(buf, fact->member, sizeof(fact->member));
	buf[strlen(buf) - 2] = '\0';
	return buf;
}

static LAYOUT_INIT bool layout_is_proto(const struct isolio_layout *fact)
{
	size_t len = strlen(fact->member);

	return len > 2 && !strcmp(fact->member + len - 2, "()");
}

static LAYOUT_INIT bool layout_fact_is_sound(const struct isolio_layout *fact)
{
	if (!memchr(fact->type, 0, sizeof(fact->type)) ||
	    !memchr(fact->member, 0, sizeof(fact->member)))
		return false;
	return fact->type[0] || layout_is_proto(fact);
}

/* Sorts a record of @nr entries into groups, by name. */
static LAYOUT_INIT int layout_group(struct layout_check *c,
				    const struct isolio_layout *facts, u32 nr)
{
	char buf[sizeof(facts->member)];
	struct layout_group *g = NULL;
	u32 i;

	for (i = 0; i < LAYOUT_NR_HEADS; i++)
		c->heads[i] = LAYOUT_NONE;
	c->nr_groups = 0;
	if (!nr || !layout_fact_is_sound(facts) || strcmp(facts->type, LAYOUT_TITLE) ||
	    strcmp(facts->member, LAYOUT_VERSION) || facts->offset != nr ||
	    facts->size != sizeof(*facts))
		return layout_fail(c, -EINVAL, "its layout record is damaged");

	for (i = 1; i < nr; i++) {
		const struct isolio_layout *fact = &facts[i];
		u16 *head;

		if (!layout_fact_is_sound(fact))
			return layout_fail(c, -EINVAL, "its layout record is damaged");
		if (g && fact->type[0] && !strcmp(g->facts->type, fact->type)) {
			g->nr++;
			continue;
		}
		if (c->nr_groups == LAYOUT_MAX_GROUPS)
			return layout_fail(c, -EINVAL, "its layout record is too long");
		g = &c->groups[c->nr_groups];
		g->facts = fact;
		g->nr = 1;
		g->seen = false;
		g->hash = layout_hash(LAYOUT_FNV_START, layout_subject(fact, buf));
		head = &c->heads[g->hash % LAYOUT_NR_HEADS];
		g->next = *head;
		*head = c->nr_groups++;
	}
	return 0;
}

/* What is behind typedefs, qualifiers and tags; NULL for void. */
static LAYOUT_INIT const struct btf_type *layout_underlying(struct layout_check *c, u32 id)
{
	const struct btf_type *t = layout_type(c, id);

	for (; t && c->steps; c->steps--) {
		switch (BTF_INFO_KIND(t->info)) {
		case BTF_KIND_TYPEDEF:
		case BTF_KIND_VOLATILE:
		case BTF_KIND_CONST:
		case BTF_KIND_RESTRICT:
		case BTF_KIND_TYPE_TAG:
			t = layout_type(c, t->type);
			break;
		default:
			return t;
		}
	}
	return NULL;
}

/* Size of a type in bytes, or LAYOUT_NO_SIZE. */
static LAYOUT_INIT u64 layout_size(struct layout_check *c, u32 id)
{
	const struct btf_type *t;
	u64 n = 1;

	while ((t = layout_underlying(c, id)) && c->steps) {
		switch (BTF_INFO_KIND(t->info)) {
		case BTF_KIND_INT:
		case BTF_KIND_STRUCT:
		case BTF_KIND_UNION:
		case BTF_KIND_ENUM:
		case BTF_KIND_ENUM64:
		case BTF_KIND_FLOAT:
			return n * t->size;
		case BTF_KIND_PTR:
			return n * sizeof(void *);
		case BTF_KIND_ARRAY:
			n *= ((const struct btf_array *)(t + 1))->nelems;
			if (n > U32_MAX)
				return LAYOUT_NO_SIZE;
			id = ((const struct btf_array *)(t + 1))->type;
			c->steps--;
			break;
		default:
			return LAYOUT_NO_SIZE;
		}
	}
	return LAYOUT_NO_SIZE;
}

/* Members of unnamed structures and unions count as the structure's own. */
static LAYOUT_INIT bool layout_find(struct layout_check *c, const struct btf_type *t,
				    const char *name, u32 base, int depth,
				    struct layout_member *found)
{
	const struct btf_member *m = (const void *)(t + 1);
	const struct btf_type *inner;
	u32 i, off;

	for (i = 0; i < BTF_INFO_VLEN(t->info) && c->steps; i++, m++) {
		const char *its = layout_name(c, m->name_off);

		c->steps--;
		off = BTF_INFO_KFLAG(t->info) ? BTF_MEMBER_BIT_OFFSET(m->offset) : m->offset;
		if (*its) {
			if (strcmp(its, name))
				continue;
			found->bits = base + off;
			found->type = m->type;
			found->bitfield = BTF_INFO_KFLAG(t->info) &&
					  BTF_MEMBER_BITFIELD_SIZE(m->offset);
			return true;
		}
		inner = layout_underlying(c, m->type);
		if (inner && layout_is_composite(inner) && depth < LAYOUT_MAX_DEPTH &&
		    layout_find(c, inner, name, base + off, depth + 1, found))
			return true;
	}
	return false;
}

static LAYOUT_INIT u32 layout_hash_named(struct layout_check *c, u32 hash, char kind,
					 const struct btf_type *t)
{
	char head[] = { kind, ':', '\0' };

	hash = layout_hash(hash, head);
	return layout_hash(layout_hash(hash, layout_name(c, t->name_off)), ";");
}

/*
 * Adds a type to a checksum, from the outside in: '*' for a pointer, 'c', 'v' and
 * 'r' for qualifiers, "[N]" for an array, "(result,parameter,...)" for a prototype,
 * a letter and a name for the others, '.' for void. Tags do not count.
 */
static LAYOUT_INIT u32 layout_hash_type(struct layout_check *c, u32 hash, u32 id, int depth)
{
	const struct btf_param *p;
	const struct btf_type *t;
	char buf[16];
	u32 i;

	while ((t = layout_type(c, id)) && c->steps) {
		c->steps--;
		id = t->type;
		switch (BTF_INFO_KIND(t->info)) {
		case BTF_KIND_PTR:
			hash = layout_hash(hash, "*");
			break;
		case BTF_KIND_CONST:
			hash = layout_hash(hash, "c");
			break;
		case BTF_KIND_VOLATILE:
			hash = layout_hash(hash, "v");
			break;
		case BTF_KIND_RESTRICT:
			hash = layout_hash(hash, "r");
			break;
		case BTF_KIND_TYPE_TAG:
			break;
		case BTF_KIND_ARRAY:
			scnprintf(buf, sizeof(buf), "[%u]",
				  ((const struct btf_array *)(t + 1))->nelems);
			hash = layout_hash(hash, buf);
			id = ((const struct btf_array *)(t + 1))->type;
			break;
		case BTF_KIND_FUNC_PROTO:
			if (depth == LAYOUT_MAX_DEPTH)
				return hash;
			hash = layout_hash_type(c, layout_hash(hash, "("), t->type, depth + 1);
			p = (const void *)(t + 1);
			for (i = 0; i < BTF_INFO_VLEN(t->info) && c->steps; i++, p++)
				hash = layout_hash_type(c, layout_hash(hash, ","), p->type,
							depth + 1);
			return layout_hash(hash, ")");
		case BTF_KIND_STRUCT:
			return layout_hash_named(c, hash, 's', t);
		case BTF_KIND_UNION:
			return layout_hash_named(c, hash, 'u', t);
		case BTF_KIND_FWD:
			return layout_hash_named(c, hash, BTF_INFO_KFLAG(t->info) ? 'u' : 's', t);
		case BTF_KIND_ENUM:
		case BTF_KIND_ENUM64:
			return layout_hash_named(c, hash, 'e', t);
		case BTF_KIND_TYPEDEF:
			return layout_hash_named(c, hash, 't', t);
		case BTF_KIND_INT:
		case BTF_KIND_FLOAT:
			return layout_hash_named(c, hash, 'i', t);
		default:
			return layout_hash(hash, "?");
		}
	}
	return layout_hash(hash, ".");
}

/* Whether type @id is a function, or a pointer to one, of that prototype. */
static LAYOUT_INIT bool layout_same_proto(struct layout_check *c, u32 id,
					  const struct isolio_layout *fact)
{
	const struct btf_type *t = layout_underlying(c, id);

	if (t && BTF_INFO_KIND(t->info) == BTF_KIND_PTR) {
		id = t->type;
		t = layout_underlying(c, id);
	}
	if (!t || BTF_INFO_KIND(t->info) != BTF_KIND_FUNC_PROTO ||
	    BTF_INFO_VLEN(t->info) != fact->size)
		return false;
	/* From the prototype on, not from a typedef of it. */
	while (layout_type(c, id) != t && c->steps) {
		id = layout_type(c, id)->type;
		c->steps--;
	}
	return layout_hash_type(c, LAYOUT_FNV_START, id, 0) == fact->offset;
}

/* One entry about a structure, and that structure in the kernel. */
static LAYOUT_INIT int layout_check_fact(struct layout_check *c, const struct btf_type *t,
					 const struct isolio_layout *fact)
{
	char name[sizeof(fact->member)];
	struct layout_member m;
	u64 size;

	if (!fact->member[0])
		return fact->size == t->size ? 0 :
		       layout_fail(c, -ENOEXEC, "struct %s has %u bytes, this kernel's has %u",
				   fact->type, fact->size, t->size);

	memcpy(name, fact->member, sizeof(name));
	if (layout_is_proto(fact))
		name[strlen(name) - 2] = '\0';
	if (!layout_find(c, t, name, 0, 0, &m))
		return layout_fail(c, -ENOEXEC, "struct %s: this kernel's has no member %s",
				   fact->type, name);
	if (layout_is_proto(fact))
		return layout_same_proto(c, m.type, fact) ? 0 :
		       layout_fail(c, -ENOEXEC,
				   "struct %s: this kernel's %s() has another prototype",
				   fact->type, name);
	if (m.bitfield || m.bits != (u64)fact->offset * 8)
		return layout_fail(c, -ENOEXEC,
				   "struct %s: %s is at offset %u, this kernel has it at %u%s",
				   fact->type, name, fact->offset, m.bits / 8,
				   m.bitfield ? " as a bit-field" : "");
	size = layout_size(c, m.type);
	if (size != fact->size)
		return layout_fail(c, -ENOEXEC,
				   "struct %s: %s has %u bytes, this kernel's has %llu",
				   fact->type, name, fact->size,
				   size == LAYOUT_NO_SIZE ? 0ULL : size);
	return 0;
}

/* All entries of a group, and a type of the kernel with its name. */
static LAYOUT_INIT int layout_check_group(struct layout_check *c, struct layout_group *g,
					  const struct btf_type *t)
{
	u32 i;
	int ret;

	g->seen = true;
	if (!g->facts->type[0]) {
		c->steps = LAYOUT_MAX_STEPS;
		return layout_same_proto(c, t->type, g->facts) ? 0 :
		       layout_fail(c, -ENOEXEC, "this kernel's %s has another prototype",
				   g->facts->member);
	}
	for (i = 0; i < g->nr; i++) {
		c->steps = LAYOUT_MAX_STEPS;
		ret = layout_check_fact(c, t, &g->facts[i]);
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * Compares each structure and function of the kernel whose name the record has
 * with what the record says: -ENOEXEC and c->why for the first that differs or
 * that the kernel lacks. After layout_index() and layout_group().
 */
static LAYOUT_INIT int layout_compare(struct layout_check *c)
{
	char buf[sizeof(c->groups->facts->member)];
	struct layout_group *g;
	u32 id, hash;
	u16 i;
	int ret;

	for (id = 1; id <= c->nr; id++) {
		const struct btf_type *t = layout_type(c, id);
		bool func = BTF_INFO_KIND(t->info) == BTF_KIND_FUNC;
		const char *name = layout_name(c, t->name_off);

		if (!func && !layout_is_composite(t))
			continue;
		hash = layout_hash(LAYOUT_FNV_START, name);
		for (i = c->heads[hash % LAYOUT_NR_HEADS]; i != LAYOUT_NONE; i = g->next) {
			g = &c->groups[i];
			if (g->hash != hash || func == !!g->facts->type[0] ||
			    strcmp(layout_subject(g->facts, buf), name))
				continue;
			ret = layout_check_group(c, g, t);
			if (ret)
				return ret;
		}
	}
	for (i = 0; i < c->nr_groups; i++) {
		g = &c->groups[i];
		if (!g->seen)
			return layout_fail(c, -ENOEXEC, "this kernel has no %s%s",
					   g->facts->type[0] ? "struct " : "",
					   g->facts->type[0] ? g->facts->type : g->facts->member);
	}
	return 0;
}

#endif /* _ISOLIO_LAYOUT_H */
