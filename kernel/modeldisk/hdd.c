// SPDX-License-Identifier: GPL-2.0-only
/*
 * hdd: a disk with one arm, rotation, zones and a queue of its own (NCQ).
 *
 * 1. Where things are
 *
 * The disk is a spiral of tracks from the outermost to the innermost. A track
 * at the fraction x of the stroke has outer_track_sects * (1 - zone_permille /
 * 1000 * x) sectors; nr_zones steps approximate that, each of as many tracks.
 * From the end of a track to the beginning of the next the platter turns for
 * switch_ns, which is what the head needs for it. So one number says where a
 * sector is, the time that the head needs to read from sector 0 to it:
 *
 *   spiral(sector) = track * (revolution + switch) + place in track * revolution
 *
 * The sector passes the head when time is spiral(sector) modulo a revolution;
 * to transfer from a to b takes spiral(b) - spiral(a); and x is the track
 * divided by the number of tracks. Sector n is the more likely to be at x the
 * denser the tracks are there: random sectors are seldom far inside.
 *
 * 2. What a command costs
 *
 *   overhead + seek(x) + rotation until it passes + transfer
 *   seek(x) = seek + seek_sqrt * sqrt(x) + seek_stroke * x	for a stroke of x > 0
 *   seek(0) = same_track
 *
 * A write is done when it is on the medium: there is no volatile cache, so a
 * flush completes at once, and so does a discard, which changes nothing.
 *
 * 3. Sequential access
 *
 * After a read the head reads on into the buffer, at most ahead_sects. A read
 * that begins there costs hit_ns and its bytes at link_bytes_per_us, but is not
 * done before the head has passed its end; ahead_sects before it are kept. The
 * first command that needs the arm ends all that. A write that continues a
 * write loses no rotation if the drive had it for overhead_ns when the other
 * one ended: its data is in the buffer then.
 *
 * 4. Which command is next
 *
 * The drive has ncq_depth commands at most, the one being served among them.
 * The others wait, in order of arrival, outside. When a command is done, the
 * next one is the one with the least
 *
 *   overhead + seek + guard + wait_permille / 1000 * rotation after all that
 *
 * of those in flight, and only then the place that came free is filled: the host
 * cannot have done it earlier. With a guard the firmware gives up on places
 * that it would pass too closely, with a wait_permille below 1000 it counts
 * less on knowing the rotation. What is served has the true rotation. A
 * command that has been in flight for age_limit_ns is next whatever it costs, the
 * oldest first. A read that hits costs hit_ns, or what is left until the head
 * comes to it; a write that continues, what is left until its place.
 *
 * Worked: 7200 revolutions a minute are 8.33 ms each. The preset's random 4 KiB
 * read has a seek of 1.85 + 5.68 * 0.53 + 11.3 * 0.33 = 8.6 ms on the mean (the
 * means of sqrt(x) and of x between two sectors), half a revolution, 0.28 ms of
 * overhead and 0.07 ms of data: 13.1 ms, or 76 a second. The cheapest of 30
 * commands costs 8.0 ms, for 125 a second. Reads of 128 KiB in sequence: 1241
 * sectors of a track in 8.33 + 1.48 ms, 64.8 MB/s, and 36 MB/s at the inner end.
 *
 * 5. Where the figures are from
 *
 * The RSD paper, table 1 (response times and rates of 32 processes at NCQ depths 1
 * to 31) is the only target for the mechanics and the firmware: no other such
 * table of a desktop disk of those years was found. Fits of it are not unique.
 * "desktop-2008" has a large guard and counts all of the rotation: with it every
 * quantile stays in its limits (tests/hdd_sim.c) with every seed that was tried.
 * "desktop-2008-h1" has the least logarithmic error over the table and counts 46
 * percent of the rotation; its median at depth 31 is 11 to 13 percent above the
 * table's. The age limit explains the largest response times at depth 31, and
 * both have it.
 *
 * The RSD paper does not name its disk. Tracks, zones, switch time, link and
 * capacity are those of a desktop disk with NCQ, from its manufacturer's
 * specification (Hitachi, Deskstar 7K500, "Data transfer speed": zone 0 of 30
 * reads 76.3 MB/s, 64.8 sustained; SATA 300 MB/s). It gives 55.5 s for 4,096
 * random reads of one sector, 74 a second; the RSD paper's disk does 76 of 4 KiB.
 *
 * 6. What it does not do
 *
 * One stream is read ahead, not several. No write cache, no retries, no defects,
 * no thermal or servo work, no power states, no shingles. Seeks to write cost
 * what seeks to read do. Heads are not told apart from tracks. Flush and
 * discard do not drain the queue, as they would on SATA.
 */
#include "event.h"
#include "hdd.h"
#include "model.h"

#define MD_HDD_STROKE_SHIFT	32	/* a stroke is 0 to 1 in Q32 */

enum md_hdd_event {
	MD_HDD_SERVED,
	MD_HDD_AT_ONCE,
};

/* Words of a command. */
enum md_hdd_word {
	MD_HDD_ENTERED_NS,	/* the firmware saw it */
	MD_HDD_FIRST_NS,	/* spiral: where it begins */
	MD_HDD_END_NS,		/* spiral: where it ends */
	MD_HDD_STROKE,		/* Q32, of its first sector */
};

struct md_hdd_zone {
	u64 first_sect;
	u64 first_track;
	u64 track_sects;
};

/* What the buffer has, or will have when the head gets there. */
struct md_hdd_ahead {
	u64 first_sect;
	u64 end_sect;		/* the head stops here; first_sect: no buffer */
	u64 passed_ns;		/* spiral: where the head is, or was, ... */
	u64 at_ns;		/* ... at this time, and it goes on from there */
};

struct md_hdd {
	struct md_model model;
	struct md_hdd_params params;
	struct md_hdd_zone *zones;
	u64 nr_sects;
	u64 nr_tracks;
	u64 rev_ns;
	u64 phase_ns;			/* angle of the platter when time began */

	struct list_head waiting;	/* for a place in the drive, by arrival */
	struct list_head queue;		/* in the drive, in order of entering */
	u64 nr_inside;			/* in the queue or being served */
	struct md_cmd *serving;
	struct md_events events;

	u64 stroke;			/* where the head is, Q32 */
	struct md_hdd_ahead ahead;
	u64 written_sect;		/* end of the last write ... */
	u64 written_end_ns;		/* ... spiral */
	u64 written_at_ns;		/* ... time */
};

static struct md_hdd *md_hdd_of(struct md_model *model)
{
	return container_of(model, struct md_hdd, model);
}

static u64 md_hdd_track_of(const struct md_hdd *hdd, u64 sect,
			   const struct md_hdd_zone **its_zone, u64 *in_track)
{
	u64 least = 0, most = hdd->params.nr_zones - 1;
	const struct md_hdd_zone *zone;

	while (least < most) {
		u64 middle = (least + most + 1) / 2;

		if (hdd->zones[middle].first_sect <= sect)
			least = middle;
		else
			most = middle - 1;
	}
	zone = &hdd->zones[least];
	*its_zone = zone;
	return zone->first_track +
	       div64_u64_rem(sect - zone->first_sect, zone->track_sects, in_track);
}

static u64 md_hdd_stroke_of(const struct md_hdd *hdd, u64 track)
{
	return div64_u64(track << MD_HDD_STROKE_SHIFT, hdd->nr_tracks);
}

/* Where sector @sect begins, or with @nr 1 ends, on the spiral. */
static u64 md_hdd_spiral_ns(const struct md_hdd *hdd, u64 sect, u64 nr, u64 *stroke)
{
	const struct md_hdd_zone *zone;
	u64 in_track, track;

	track = md_hdd_track_of(hdd, sect, &zone, &in_track);
	*stroke = md_hdd_stroke_of(hdd, track);
	return track * (hdd->rev_ns + hdd->params.switch_ns) +
	       div64_u64((in_track + nr) * hdd->rev_ns, zone->track_sects);
}

static u64 md_hdd_seek_ns(const struct md_hdd *hdd, u64 from, u64 to)
{
	const struct md_hdd_params *params = &hdd->params;
	u64 stroke = from > to ? from - to : to - from;
	u64 root;

	if (!stroke)
		return params->same_track_ns;
	root = int_sqrt64(stroke << MD_HDD_STROKE_SHIFT);
	return params->seek_ns +
	       (params->seek_sqrt_ns * root >> MD_HDD_STROKE_SHIFT) +
	       (params->seek_stroke_ns * stroke >> MD_HDD_STROKE_SHIFT);
}

/* How long after @at_ns the head, on the right track, has to wait for a place. */
static u64 md_hdd_wait_ns(const struct md_hdd *hdd, u64 at_ns, u64 spiral_ns)
{
	u64 now, then;

	div64_u64_rem(at_ns + hdd->phase_ns, hdd->rev_ns, &now);
	div64_u64_rem(spiral_ns, hdd->rev_ns, &then);
	return then >= now ? then - now : then + hdd->rev_ns - now;
}

/* When the head passes a place of what it reads ahead; 0: it has passed it before. */
static u64 md_hdd_passes_ns(const struct md_hdd *hdd, u64 spiral_ns)
{
	const struct md_hdd_ahead *ahead = &hdd->ahead;

	return spiral_ns > ahead->passed_ns ?
		ahead->at_ns + (spiral_ns - ahead->passed_ns) : 0;
}

/* The head has come to the end of what it may read ahead, before @now_ns. */
static bool md_hdd_stopped(const struct md_hdd *hdd, u64 now_ns)
{
	u64 stroke;

	return now_ns > md_hdd_passes_ns(hdd,
		md_hdd_spiral_ns(hdd, hdd->ahead.end_sect - 1, 1, &stroke));
}

/* The head reads on into this command, or has done so. */
static bool md_hdd_hits(const struct md_hdd *hdd, const struct md_cmd *cmd, u64 now_ns)
{
	const struct md_hdd_ahead *ahead = &hdd->ahead;

	if (cmd->op != MD_READ || ahead->first_sect == ahead->end_sect)
		return false;
	if (cmd->sect < ahead->first_sect || cmd->sect > ahead->end_sect)
		return false;
	return cmd->sect < ahead->end_sect || !md_hdd_stopped(hdd, now_ns);
}

/* The head writes on into this command: its data is in the drive already. */
static bool md_hdd_continues(const struct md_hdd *hdd, const struct md_cmd *cmd, u64 now_ns)
{
	return cmd->op == MD_WRITE && cmd->sect == hdd->written_sect &&
	       hdd->written_at_ns == now_ns &&
	       cmd->word[MD_HDD_ENTERED_NS] + hdd->params.overhead_ns <= now_ns;
}

/* What the firmware thinks it costs to have the head at the command's data. */
static u64 md_hdd_cost_ns(const struct md_hdd *hdd, const struct md_cmd *cmd, u64 now_ns)
{
	const struct md_hdd_params *params = &hdd->params;
	u64 first_ns = cmd->word[MD_HDD_FIRST_NS];
	u64 cost_ns;

	if (md_hdd_hits(hdd, cmd, now_ns)) {
		u64 passes_ns = md_hdd_passes_ns(hdd, first_ns);

		return max(params->hit_ns, passes_ns > now_ns ? passes_ns - now_ns : 0);
	}
	if (md_hdd_continues(hdd, cmd, now_ns))
		return first_ns - hdd->written_end_ns;

	cost_ns = params->overhead_ns + params->guard_ns +
		  md_hdd_seek_ns(hdd, hdd->stroke, cmd->word[MD_HDD_STROKE]);
	return cost_ns + div_u64(md_hdd_wait_ns(hdd, now_ns + cost_ns, first_ns) *
				 params->wait_permille, 1000);
}

/* The firmware's choice. The queue is not empty. */
static struct md_cmd *md_hdd_choose(struct md_hdd *hdd, u64 now_ns)
{
	struct md_cmd *cmd, *best = list_first_entry(&hdd->queue, struct md_cmd, node);
	u64 age_ns = now_ns - best->word[MD_HDD_ENTERED_NS];
	u64 limit_ns = hdd->params.age_limit_ns;
	u64 least_ns = MD_NEVER_NS;

	if (limit_ns && age_ns >= limit_ns) {
		struct md_counts *counts = &hdd->model.counts;

		counts->nr_stalls++;
		counts->stall_max_ns = max(counts->stall_max_ns, age_ns);
		return best;
	}
	if (list_is_last(&best->node, &hdd->queue))
		return best;
	list_for_each_entry(cmd, &hdd->queue, node) {
		u64 cost_ns = md_hdd_cost_ns(hdd, cmd, now_ns);

		if (cost_ns < least_ns) {
			least_ns = cost_ns;
			best = cmd;
		}
	}
	return best;
}

/* Serve a read that hits; when is it done? */
static u64 md_hdd_serve_hit(struct md_hdd *hdd, const struct md_cmd *cmd, u64 now_ns)
{
	const struct md_hdd_params *params = &hdd->params;
	struct md_hdd_ahead *ahead = &hdd->ahead;
	u64 bytes = (u64)cmd->nr_sects << MD_SECT_SHIFT;
	u64 end_sect = min(cmd->sect + cmd->nr_sects + params->ahead_sects, hdd->nr_sects);
	u64 sent_ns = now_ns + params->hit_ns +
		      div64_u64(bytes * 1000, params->link_bytes_per_us);
	u64 stroke;

	if (end_sect > ahead->end_sect) {
		/* The buffer has room again: a head that stopped has to wait. */
		if (md_hdd_stopped(hdd, now_ns)) {
			u64 ready_ns = now_ns + params->overhead_ns + params->same_track_ns;

			ahead->passed_ns = md_hdd_spiral_ns(hdd, ahead->end_sect, 0,
							    &stroke);
			ahead->at_ns = ready_ns + md_hdd_wait_ns(hdd, ready_ns,
								 ahead->passed_ns);
		}
		ahead->end_sect = end_sect;
	}
	if (cmd->sect > params->ahead_sects)
		ahead->first_sect = max(ahead->first_sect, cmd->sect - params->ahead_sects);
	return max(sent_ns, md_hdd_passes_ns(hdd, cmd->word[MD_HDD_END_NS]));
}

/* Serve a command with the head; when is it done? */
static u64 md_hdd_serve_medium(struct md_hdd *hdd, const struct md_cmd *cmd, u64 now_ns)
{
	const struct md_hdd_params *params = &hdd->params;
	u64 first_ns = cmd->word[MD_HDD_FIRST_NS];
	u64 end_ns = cmd->word[MD_HDD_END_NS];
	u64 end_sect = cmd->sect + cmd->nr_sects;
	u64 at_ns;

	if (md_hdd_continues(hdd, cmd, now_ns)) {
		at_ns = now_ns + (first_ns - hdd->written_end_ns);
	} else {
		at_ns = now_ns + params->overhead_ns +
			md_hdd_seek_ns(hdd, hdd->stroke, cmd->word[MD_HDD_STROKE]);
		at_ns += md_hdd_wait_ns(hdd, at_ns, first_ns);
	}
	hdd->ahead = (struct md_hdd_ahead){};
	if (cmd->op == MD_READ) {
		hdd->ahead.first_sect = cmd->sect;
		hdd->ahead.end_sect = min(end_sect + params->ahead_sects, hdd->nr_sects);
		hdd->ahead.passed_ns = first_ns;
		hdd->ahead.at_ns = at_ns;
	} else {
		hdd->written_sect = end_sect;
		hdd->written_end_ns = end_ns;
		hdd->written_at_ns = at_ns + (end_ns - first_ns);
	}
	return at_ns + (end_ns - first_ns);
}

/* The drive is idle and its queue is not empty. */
static void md_hdd_start(struct md_hdd *hdd, u64 now_ns)
{
	struct md_cmd *cmd = md_hdd_choose(hdd, now_ns);
	u64 done_ns, last_sect;

	list_del(&cmd->node);
	hdd->serving = cmd;
	cmd->start_ns = now_ns;
	last_sect = cmd->sect + cmd->nr_sects - 1;
	if (md_hdd_hits(hdd, cmd, now_ns))
		done_ns = md_hdd_serve_hit(hdd, cmd, now_ns);
	else
		done_ns = md_hdd_serve_medium(hdd, cmd, now_ns);
	md_hdd_spiral_ns(hdd, last_sect, 0, &hdd->stroke);
	md_events_add(&hdd->events, done_ns, MD_HDD_SERVED, 0, cmd);
}

/* Commands that wait enter the drive while there is a place. */
static void md_hdd_refill(struct md_hdd *hdd, u64 now_ns)
{
	struct md_cmd *cmd;

	while (hdd->nr_inside < hdd->params.ncq_depth && !list_empty(&hdd->waiting)) {
		cmd = list_first_entry(&hdd->waiting, struct md_cmd, node);
		cmd->word[MD_HDD_ENTERED_NS] = now_ns;
		list_move_tail(&cmd->node, &hdd->queue);
		hdd->nr_inside++;
	}
	if (!hdd->serving && !list_empty(&hdd->queue))
		md_hdd_start(hdd, now_ns);
}

static void md_hdd_submit(struct md_model *model, struct md_cmd *cmd, u64 now_ns)
{
	struct md_hdd *hdd = md_hdd_of(model);
	u64 stroke;

	md_arrive(model, cmd, now_ns);
	if (cmd->op != MD_READ && cmd->op != MD_WRITE) {
		md_events_add(&hdd->events, now_ns, MD_HDD_AT_ONCE, 0, cmd);
		return;
	}
	cmd->word[MD_HDD_FIRST_NS] = md_hdd_spiral_ns(hdd, cmd->sect, 0,
						      &cmd->word[MD_HDD_STROKE]);
	cmd->word[MD_HDD_END_NS] = md_hdd_spiral_ns(hdd, cmd->sect + cmd->nr_sects - 1,
						    1, &stroke);
	list_add_tail(&cmd->node, &hdd->waiting);
	md_hdd_refill(hdd, now_ns);
}

static u64 md_hdd_next_ns(struct md_model *model)
{
	return md_events_next_ns(&md_hdd_of(model)->events);
}

static void md_hdd_advance(struct md_model *model, u64 now_ns)
{
	struct md_hdd *hdd = md_hdd_of(model);
	struct md_event event;

	while (md_events_take(&hdd->events, now_ns, &event)) {
		md_done(model, event.what, event.at_ns);
		if (event.kind != MD_HDD_SERVED)
			continue;
		hdd->serving = NULL;
		hdd->nr_inside--;
		/* The choice is made among those that are in the drive now. */
		if (!list_empty(&hdd->queue))
			md_hdd_start(hdd, event.at_ns);
		md_hdd_refill(hdd, event.at_ns);
	}
}

static void md_hdd_destroy(struct md_model *model)
{
	struct md_hdd *hdd = md_hdd_of(model);

	md_events_free(&hdd->events);
	kvfree(hdd->zones);
	kfree(hdd);
}

/*
 * Sectors of the tracks outside of zone @zone, times a constant: the integral of
 * 1 - zone_permille / 1000 * x from 0 to zone / nr_zones.
 */
static u64 md_hdd_sects_outside(const struct md_hdd_params *params, u64 zone)
{
	return zone * (2000 * params->nr_zones - params->zone_permille * zone);
}

static void md_hdd_make_zones(struct md_hdd *hdd)
{
	const struct md_hdd_params *params = &hdd->params;
	u64 nr = params->nr_zones, sect = 0, track = 0, i;

	for (i = 0; i < nr; i++) {
		struct md_hdd_zone *zone = &hdd->zones[i];
		u64 end_sect = mul_u64_u64_div_u64(hdd->nr_sects,
						   md_hdd_sects_outside(params, i + 1),
						   md_hdd_sects_outside(params, nr));
		u64 nr_tracks = 1;

		zone->first_sect = sect;
		zone->first_track = track;
		/* As dense as the middle of the zone. */
		zone->track_sects = div64_u64(params->outer_track_sects *
			(2000 * nr - params->zone_permille * (2 * i + 1)), 2000 * nr);
		if (end_sect > sect + zone->track_sects)
			nr_tracks = div64_u64(end_sect - sect + zone->track_sects / 2,
					      zone->track_sects);
		track += nr_tracks;
		sect += nr_tracks * zone->track_sects;
	}
	/* The last track of all may be half used. */
	if (sect < hdd->nr_sects)
		track++;
	hdd->nr_tracks = track;
}

static bool md_hdd_refused(struct md_setup *setup)
{
	const struct md_hdd_params *params = setup->params;
	u64 outer_sects = params->outer_track_sects;
	u64 inner_sects = div_u64(outer_sects * (1000 - params->zone_permille), 1000);
	u64 least_sects = outer_sects * params->nr_zones;
	u64 most_sects = inner_sects * U32_MAX;

	if (setup->nr_sects < least_sects) {
		scnprintf(setup->problem, sizeof(setup->problem),
			  "nr_zones is %llu, of tracks of %llu sectors: a disk of %llu sectors is too small, it needs %llu",
			  params->nr_zones, outer_sects, setup->nr_sects, least_sects);
		return true;
	}
	/* A track's stroke is in Q32. */
	if (setup->nr_sects > most_sects) {
		scnprintf(setup->problem, sizeof(setup->problem),
			  "outer_track_sects is %llu, innermost %llu: a disk of %llu sectors is too large, it can have %llu",
			  outer_sects, inner_sects, setup->nr_sects, most_sects);
		return true;
	}
	return false;
}

static struct md_model *md_hdd_create(struct md_setup *setup)
{
	struct md_hdd *hdd = kzalloc(sizeof(*hdd), GFP_KERNEL);

	if (!hdd || md_hdd_refused(setup))
		goto fail;
	md_model_init(&hdd->model, &md_hdd_type, setup->seed);
	hdd->params = *(const struct md_hdd_params *)setup->params;
	hdd->nr_sects = setup->nr_sects;
	hdd->rev_ns = div64_u64(60ULL * 1000 * 1000 * 1000, hdd->params.rpm);
	hdd->phase_ns = md_rng_below(&hdd->model.rng, hdd->rev_ns);
	hdd->written_at_ns = MD_NEVER_NS;
	INIT_LIST_HEAD(&hdd->waiting);
	INIT_LIST_HEAD(&hdd->queue);
	hdd->zones = kvcalloc(hdd->params.nr_zones, sizeof(*hdd->zones), GFP_KERNEL);
	/* The command being served, and each that is done at once. */
	if (!hdd->zones || md_events_init(&hdd->events, setup->nr_cmds))
		goto fail_zones;
	md_hdd_make_zones(hdd);
	return &hdd->model;

fail_zones:
	kvfree(hdd->zones);
fail:
	kfree(hdd);
	return NULL;
}

#define MD_PARAMS_STRUCT md_hdd_params
static const struct md_param md_hdd_param_table[] = {
	MD_HDD_PARAMS(MD_PARAM_ENTRY)
};

#undef MD_PARAMS_STRUCT

/*
 * Tracks, zones and link: 76.3 MB/s of zone 0 are 1242 sectors in a revolution,
 * of which the middle of that zone has 0.75 percent less than the edge; 64.8 MB/s
 * sustained leave 1.48 ms for the switch (Hitachi, Deskstar 7K500 specification).
 * Density: the table does not care; 450 is that of the fits. The buffer: 16 MiB
 * (ibid.) in 16 segments, assumed. A hit: assumed, 55 MB/s in reads of 4 KiB.
 */
#define MD_HDD_DESKTOP_2008						\
	.rpm = 7200,							\
	.outer_track_sects = 1251,					\
	.zone_permille = 450,						\
	.nr_zones = 30,							\
	.switch_ns = 1480 * 1000,					\
	.same_track_ns = 300 * 1000,	/* assumed, as in the fits */	\
	.hit_ns = 60 * 1000,						\
	.link_bytes_per_us = 300,	/* SATA, 3 Gbit/s */		\
	.ahead_sects = 2048,						\
	.ncq_depth = 31,		/* what libata gives it */	\
	.age_limit_ns = 1500 * 1000 * 1000ULL	/* fit */

/* Fit of the RSD paper, table 1: a guard, and the rotation is known. */
static const struct md_hdd_params md_hdd_desktop_2008 = {
	MD_HDD_DESKTOP_2008,
	.overhead_ns = 280 * 1000,
	.seek_ns = 1850 * 1000,
	.seek_sqrt_ns = 5680 * 1000,
	.seek_stroke_ns = 11300 * 1000,
	.guard_ns = 2310 * 1000,
	.wait_permille = 1000,
};

/* Another fit of the same table: less guard, the rotation counts less than half. */
static const struct md_hdd_params md_hdd_desktop_2008_h1 = {
	MD_HDD_DESKTOP_2008,
	.overhead_ns = 500 * 1000,
	.seek_ns = 2500 * 1000,
	.seek_sqrt_ns = 9850 * 1000,
	.seek_stroke_ns = 2000 * 1000,
	.guard_ns = 1000 * 1000,
	.wait_permille = 460,
};

/* 976,773,168 sectors, less 48. */
static const struct md_preset md_hdd_presets[] = {
	{ "desktop-2008", 476940, &md_hdd_desktop_2008 },
	{ "desktop-2008-h1", 476940, &md_hdd_desktop_2008_h1 },
};

const struct md_model_type md_hdd_type = {
	.name = "hdd",
	.params = md_hdd_param_table,
	.nr_params = ARRAY_SIZE(md_hdd_param_table),
	.presets = md_hdd_presets,
	.nr_presets = ARRAY_SIZE(md_hdd_presets),
	.params_bytes = sizeof(struct md_hdd_params),
	.rotational = true,
	.create = md_hdd_create,
	.destroy = md_hdd_destroy,
	.submit = md_hdd_submit,
	.next_ns = md_hdd_next_ns,
	.advance = md_hdd_advance,
};
