// SPDX-License-Identifier: MIT
/*
 * RocksDB over libaps: a file system, "aps://", whose direct reads wait as libaps does. It is
 * registered when this library is loaded: preloaded, linked or opened.
 *
 *	LD_PRELOAD=/usr/lib/libaps/aps-rocksdb.so db_bench --fs_uri=aps:// --use_direct_reads ...
 *
 * With use_direct_reads, reads of tables go through libaps, also those of a compaction. Everything
 * else is the default file system's: reads through the page cache, sequential reads, writes, syncs,
 * locks. A sync and a large write take far longer than an interrupt, so polling gains nothing. Where
 * libaps has no context (memory, descriptors, a child after fork), reads are by pread().
 *
 * Threads. Each thread that reads has a ring of its own for each mode: a context of libaps with
 * a lock. Another thread takes the lock when it closes a file that the ring knows, when it polls
 * for a read that the ring's thread sent, and for statistics. A ring lives as long as its thread,
 * or longer while a read of ReadAsync() has it.
 *
 * Files. A ring adds a file when its thread reads it first, and the file remembers the ring. A
 * file that is closed is removed from its rings: else the kernel's table would keep the blocks
 * of a deleted file on the disk.
 *
 * Locks: the one of all rings is taken before a ring's, and a ring's before a file's. Callbacks
 * run without any.
 */
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>
#include <rocksdb/file_system.h>
#include <rocksdb/utilities/object_registry.h>
#include <rocksdb/version.h>
#include <aps.h>

namespace rocks = ROCKSDB_NAMESPACE;
using rocks::FSReadRequest;
using rocks::IODebugContext;
using rocks::IOOptions;
using rocks::IOStatus;
using rocks::Slice;

namespace {
using Guard = std::lock_guard<std::mutex>;
std::atomic<uint64_t> nr_plain; /* reads by pread() */
const pid_t owner = getpid(); /* in a child, threads that are not there may have any lock */
class Ring;

/* A descriptor with O_DIRECT, and the rings that may have a number for it. */
struct File {
	const int fd;
	const size_t align;
	std::mutex lock;
	std::vector<std::weak_ptr<Ring>> users;

	File(int f, size_t a) : fd(f), align(a) {}
	~File();

	void AddUser(const std::weak_ptr<Ring> &ring)
	{
		auto is_gone = [](const std::weak_ptr<Ring> &r) { return r.expired(); };
		Guard hold(lock);

		users.erase(std::remove_if(users.begin(), users.end(), is_gone), users.end());
		users.push_back(ring);
	}
};

/* One read of a part of a file, which may take several I/Os. */
struct Io {
	File *file;
	uint64_t offset;
	size_t bytes;
	char *to;
	size_t have = 0;
	int error = 0; /* errno */
	bool done;

	Io(File *f, uint64_t o, size_t n, char *t) : file(f), offset(o), bytes(n), to(t), done(n == 0) {}

	/* The file ends with less than a block. */
	bool IsWhole() const { return have == bytes || have % file->align; }

	/* The rest of it, by pread(). */
	void Plain()
	{
		nr_plain.fetch_add(1, std::memory_order_relaxed);
		while (!done) {
			ssize_t n = pread(file->fd, to + have, bytes - have, static_cast<off_t>(offset + have));

			if (n < 0 && errno == EINTR)
				continue;
			error = n < 0 ? errno : 0;
			have += n > 0 ? static_cast<size_t>(n) : 0;
			done = n <= 0 || IsWhole();
		}
	}

	IOStatus Result(Slice *result) const
	{
		const std::string what = error ? "read of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) : "";
		*result = Slice(to, error ? 0 : have);
		return error ? IOStatus::IOError(what, strerror(error)) : IOStatus::OK();
	}
};

/* All rings of the process. It is never freed: threads end after static objects do. */
struct Rings {
	std::mutex lock;
	std::set<Ring *> live;
	struct aps_stats closed = {};
};

Rings &AllRings() { static Rings *all = new Rings; return *all; }

void Add(struct aps_stats *sum, const struct aps_stats &s)
{
	struct aps_stats total = s; /* the worst backend of all; margin_ppm is the last one's */

	for (uint64_t *to = &total.nr_reads, *from = &sum->nr_reads; to <= &total.nr_failed_submits; to++, from++)
		*to += *from;
	total.nr_files += sum->nr_files;
	total.nr_outstanding += sum->nr_outstanding;
	total.backend = std::max(total.backend, sum->backend);
	total.ring_error = std::min(total.ring_error, sum->ring_error);
	*sum = total;
}

/* Send(), Submit() and Await() are called with `lock` held, the others without. */
class Ring : public std::enable_shared_from_this<Ring> {
public:
	std::mutex lock;

	Ring(enum aps_mode mode, bool has_context)
	{
		Guard hold(AllRings().lock);
		struct aps_options o;

		aps_options_init(&o, sizeof(o));
		o.mode = mode;
		o.flags = APS_FALLBACK;
		o.depth = 128; /* a MultiRead() of more goes in parts */
		if (!has_context || aps_open(&ctx, &o))
			ctx = nullptr;
		AllRings().live.insert(this);
	}

	/* Nothing is in flight: a handle would have kept it. */
	~Ring()
	{
		if (getpid() == owner) {
			Guard hold(AllRings().lock);
			Add(&AllRings().closed, Stats());
			AllRings().closed.nr_files = 0;
			AllRings().live.erase(this);
		}
		aps_close(ctx);
	}

	struct aps_stats Stats()
	{
		struct aps_stats s = {};
		Guard hold(lock);

		if (ctx)
			aps_get_stats(ctx, &s, sizeof(s));
		return s;
	}

	/* The file is closed. RocksDB reads none of it any more; a read that it gave up is waited for. */
	void Forget(File *file)
	{
		Guard hold(lock);
		auto found = numbers.find(file);

		if (found == numbers.end())
			return;
		while (aps_remove_file(ctx, found->second) == -EBUSY && Take() != -ECHILD)
			;
		numbers.erase(found);
	}

	/* It may not be done before Await(). */
	void Send(Io *io)
	{
		int n = 1, number = io->done ? 0 : Number(io->file), err = io->done ? 0 : -EAGAIN;

		while (number >= 0 && err == -EAGAIN && (n > 0 || n == -EINTR)) {
			err = aps_queue_read(ctx, number, io->to + io->have, io->bytes - io->have,
					     static_cast<off_t>(io->offset + io->have), io);
			if (err == -EAGAIN)
				n = Take(); /* as many as fit are outstanding */
		}
		if (err)
			io->Plain();
	}

	/* What the kernel does not take stays queued, and Await() sends it again. */
	void Submit() { if (ctx) aps_submit(ctx); }

	void Await(Io *io)
	{
		while (!io->done) {
			int n = Take();

			if (n == -ECHILD) /* of the process that sent it */
				io->Plain();
			/* The kernel takes no more. What is queued comes back, and is read plainly. What
			 * is in flight is waited for, whatever it takes: the memory is the disk's. */
			else if (n < 0 && n != -EINTR && aps_cancel(ctx, io) == -EALREADY)
				sched_yield();
		}
	}

private:
	struct aps *ctx = nullptr;
	std::unordered_map<File *, int> numbers;

	/* Return: the file's number in the context, or -errno. */
	int Number(File *file)
	{
		if (!ctx)
			return -ENODEV;
		auto [at, is_new] = numbers.try_emplace(file, -ENODEV);
		if (is_new) {
			at->second = aps_add_file(ctx, file->fd);
			file->AddUser(weak_from_this());
		}
		return at->second;
	}

	/* Wait for one I/O or more. Return: how many, or -errno. */
	int Take()
	{
		struct aps_event events[16];
		int n = aps_wait(ctx, events, 1, 16);

		for (int i = 0; i < n; i++)
			Complete(static_cast<Io *>(events[i].data), events[i].result);
		return n;
	}

	void Complete(Io *io, ssize_t result)
	{
		if (result == -EAGAIN || result == -EINTR || result == -ECANCELED || result == -EOPNOTSUPP) {
			io->Plain();
			return;
		}
		io->error = result < 0 ? static_cast<int>(-result) : 0;
		io->have += result > 0 ? static_cast<size_t>(result) : 0;
		io->done = result <= 0 || io->IsWhole();
		Send(io); /* the rest: its slot was given back */
	}
};

File::~File()
{
	std::vector<std::weak_ptr<Ring>> last;

	if (getpid() == owner) {
		Guard hold(lock);
		last.swap(users);
	}
	for (auto &user : last)
		if (auto ring = user.lock())
			ring->Forget(this);
	close(fd);
}

/* The calling thread's, by mode. */
thread_local bool is_ending; /* objects that are destroyed later may read */
thread_local struct OfThread {
	std::array<std::shared_ptr<Ring>, APS_RING_HYBRID + 1> rings;
	~OfThread() { is_ending = true; }
} of_thread;

const std::shared_ptr<Ring> &RingOfThread(enum aps_mode mode)
{
	static auto *none = new std::shared_ptr<Ring>(new Ring(APS_INTERRUPT, false));

	auto &ring = is_ending ? *none : of_thread.rings[mode];
	if (!ring)
		ring = std::make_shared<Ring>(mode, true);
	return ring;
}

/* The type of the function that ReadAsync() calls, which differs from release to release. */
template <class Cb, class... Rest>
Cb CallbackOf(IOStatus (rocks::FSRandomAccessFile::*)(FSReadRequest &, const IOOptions &, Cb, Rest...));
using ReadDone = decltype(CallbackOf(&rocks::FSRandomAccessFile::ReadAsync));

/* A read of ReadAsync(); RocksDB knows its address. */
struct Handle {
	const std::shared_ptr<Ring> ring;
	Io io;
	const ReadDone cb;
	void *const cb_arg;
	bool told = false;

	/* Wait for it and tell RocksDB. */
	void Finish(bool is_aborted)
	{
		FSReadRequest req;

		ring->lock.lock();
		ring->Await(&io);
		ring->lock.unlock();
		req.offset = io.offset;
		req.len = io.bytes;
		req.scratch = io.to;
		req.status = io.Result(&req.result);
		if (is_aborted)
			req.status = IOStatus::Aborted();
		if (!std::exchange(told, true))
			cb(req, cb_arg);
	}
};

class ApsFile : public rocks::FSRandomAccessFile {
	mutable File file;
	const enum aps_mode mode;
	std::string id = std::string(64, '\0');

public:
	/* real: the default file system's, which is only asked for what does not change. */
	ApsFile(int fd, const rocks::FSRandomAccessFile &real, enum aps_mode m)
		: file(fd, real.GetRequiredBufferAlignment()), mode(m)
	{
		id.resize(real.GetUniqueId(&id[0], id.size()));
	}

	IOStatus Read(uint64_t offset, size_t n, const IOOptions &, Slice *result, char *scratch,
		      IODebugContext *) const override
	{
		Io io(&file, offset, n, scratch);
		auto &ring = RingOfThread(mode);
		Guard hold(ring->lock);

		ring->Send(&io);
		ring->Await(&io);
		return io.Result(result);
	}

	IOStatus MultiRead(FSReadRequest *reqs, size_t nr, const IOOptions &, IODebugContext *) override
	{
		auto &ring = RingOfThread(mode);
		Guard hold(ring->lock);
		std::vector<Io> ios;

		ios.reserve(nr); /* the ring has their addresses */
		for (size_t i = 0; i < nr; i++) {
			ios.emplace_back(&file, reqs[i].offset, reqs[i].len, reqs[i].scratch);
			ring->Send(&ios[i]);
		}
		for (size_t i = 0; i < nr; i++) {
			ring->Await(&ios[i]);
			reqs[i].status = ios[i].Result(&reqs[i].result);
		}
		return IOStatus::OK();
	}

#if ROCKSDB_MAJOR >= 8 /* up to 7.8 prefetching fails an assertion when it is not done at once */
	IOStatus ReadAsync(FSReadRequest &req, const IOOptions &, ReadDone cb, void *cb_arg, void **io_handle,
			   rocks::IOHandleDeleter *del_fn, IODebugContext *) override
	{
		auto &ring = RingOfThread(mode);
		Handle *handle = new Handle{ring, Io(&file, req.offset, req.len, req.scratch), std::move(cb), cb_arg};
		Guard hold(ring->lock);

		ring->Send(&handle->io);
		ring->Submit();
		*io_handle = handle;
		*del_fn = [](void *h) { delete static_cast<Handle *>(h); };
		return IOStatus::OK();
	}
#endif

	bool use_direct_io() const override { return true; }
	size_t GetRequiredBufferAlignment() const override { return file.align; }
	IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); } /* nothing is cached */

	size_t GetUniqueId(char *to, size_t max_bytes) const override { return id.copy(to, max_bytes); }
};

/* A file of the default file system, whose handles of ReadAsync() Poll() does not know. */
struct OtherFile : public rocks::FSRandomAccessFileOwnerWrapper {
	using FSRandomAccessFileOwnerWrapper::FSRandomAccessFileOwnerWrapper;

	IOStatus ReadAsync(FSReadRequest &req, const IOOptions &options, ReadDone cb, void *cb_arg, void **io_handle,
			   rocks::IOHandleDeleter *del_fn, IODebugContext *dbg) override
	{
		return FSRandomAccessFile::ReadAsync(req, options, cb, cb_arg, io_handle, del_fn, dbg);
	}
};

class ApsFileSystem : public rocks::FileSystemWrapper {
	const enum aps_mode mode;

public:
	explicit ApsFileSystem(enum aps_mode m) : FileSystemWrapper(rocks::FileSystem::Default()), mode(m) {}
	const char *Name() const override { return "aps"; }

	IOStatus NewRandomAccessFile(const std::string &name, const rocks::FileOptions &options,
				     std::unique_ptr<rocks::FSRandomAccessFile> *result,
				     IODebugContext *dbg) override
	{
		std::unique_ptr<rocks::FSRandomAccessFile> real;
		IOStatus s = target()->NewRandomAccessFile(name, options, &real, dbg);
		bool direct = s.ok() && options.use_direct_reads && !options.use_mmap_reads;
		int fd = direct ? open(name.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC) : -1;

		if (fd >= 0)
			result->reset(new ApsFile(fd, *real, mode));
		else if (s.ok())
			result->reset(new OtherFile(std::move(real)));
		return s;
	}

	IOStatus Poll(std::vector<void *> &handles, size_t min_completions) override
	{
		for (size_t i = 0; i < std::min(handles.size(), min_completions); i++)
			if (handles[i])
				static_cast<Handle *>(handles[i])->Finish(false);
		return IOStatus::OK();
	}

	/* A disk gives nothing back: the reads are waited for. */
	IOStatus AbortIO(std::vector<void *> &handles) override
	{
		for (void *handle : handles)
			if (handle)
				static_cast<Handle *>(handle)->Finish(true);
		return IOStatus::OK();
	}

#if ROCKSDB_MAJOR >= 8
	void SupportedOps(int64_t &ops) override
	{
		target()->SupportedOps(ops);
		ops |= int64_t{1} << rocks::FSSupportedOps::kAsyncIO;
	}
#endif
};

rocks::FileSystem *Make(const std::string &uri, std::unique_ptr<rocks::FileSystem> *guard, std::string *error)
{
	const std::string name = uri.substr(strlen("aps://"));
	int mode = name.empty() ? static_cast<int>(APS_ADAPTIVE) : aps_parse_mode(name.c_str());

	if (mode < 0) {
		*error = uri + ": no such mode; allowed: aps://, aps://interrupt, aps://poll, aps://hybrid, "
			       "aps://aps, aps://ring-hybrid";
		return nullptr;
	}
	guard->reset(new ApsFileSystem(static_cast<enum aps_mode>(mode)));
	return guard->get();
}

__attribute__((constructor)) void Register()
{
	rocks::ObjectLibrary::Default()->AddFactory<rocks::FileSystem>(
		rocks::ObjectLibrary::PatternEntry("aps", false).AddSeparator("://", false), Make);
}
} // namespace

/* How all reads of the process were waited for until now. bytes: sizeof(struct aps_stats). */
extern "C" __attribute__((visibility("default"))) void aps_rocksdb_stats(struct aps_stats *stats, size_t bytes)
{
	Guard hold(AllRings().lock);
	struct aps_stats sum = AllRings().closed;

	for (Ring *ring : AllRings().live)
		Add(&sum, ring->Stats());
	memset(stats, 0, bytes);
	memcpy(stats, &sum, std::min(bytes, sizeof(sum)));
}

__attribute__((destructor)) static void PrintStats()
{
	struct aps_stats s;

	if (!getenv("APS_ROCKSDB_STATS") || getpid() != owner)
		return;
	aps_rocksdb_stats(&s, sizeof(s));
	std::cerr << "aps-rocksdb: backend " << (s.backend == APS_BACKEND_RING ? "io_uring" : "preadv2") << ", "
		  << s.nr_reads << " reads, " << s.nr_errors << " errors, " << nr_plain << " by pread; waits: "
		  << s.nr_waits[APS_WAIT_INTERRUPT] << " interrupt, " << s.nr_waits[APS_WAIT_POLL] << " poll, "
		  << s.nr_waits[APS_WAIT_HYBRID] << " hybrid, " << s.nr_waits[APS_WAIT_DEEP] << " deep\n";
}
