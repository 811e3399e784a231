#include "cluster/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

#include "base/fork.h"

namespace fb::cluster {
namespace {

constexpr int64_t second = 1'000'000'000, beat = second / 2;

int64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * second + t.tv_nsec;
}

enum class Word : uint8_t { Beat = 0xb1, Lost = 0xb2, Left = 0xb3 };

struct Record {
    Word word;
    uint8_t zero[3] = {};
    uint32_t rank;
};
static_assert(sizeof(Record) == 8);

struct Link {
    int fd, rank;
    int64_t heard;
    char buffer[sizeof(Record)] = {};
    size_t filled = 0;
};

class Watch {
  public:
    Watch(int rank, int size, const std::vector<std::pair<int, int>>& connections, double silence, int changed)
        : rank_(rank),
          silence_(static_cast<int64_t>(silence * 1e9)),
          changed_(changed),
          peers_(std::make_shared<Peers>(size)) {
        for (auto [fd, other] : connections) {
            fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
            links_.push_back({fd, other, now()});
        }
        wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        set_peers(peers_);
        thread_ = std::thread([this] { run(); });
    }

    void end() {
        ending_ = true;
        uint64_t one = 1;
        if (write(wake_, &one, sizeof one) < 0) return;
        thread_.join();
        for (auto& link : links_) send(link, {Word::Left, {}, static_cast<uint32_t>(rank_)});
        close_all();
    }

    void close_all() {
        for (auto& link : links_)
            if (link.fd >= 0) close(link.fd), link.fd = -1;
        close(wake_);
    }

  private:
    void run() {
        std::vector<pollfd> polled;
        int64_t before = now(), beaten = 0;
        while (!ending_) {
            polled.assign(1, {wake_, POLLIN, 0});
            for (auto& link : links_) polled.push_back({link.fd, POLLIN, 0});  // poll() skips negative descriptors
            poll(polled.data(), polled.size(), static_cast<int>(beat / 2 / 1'000'000));
            int64_t time = now();
            // A process that was stopped, or suspended with the machine, has missed the others' messages.
            if (time - before > silence_ / 2)
                for (auto& link : links_) link.heard = time;
            before = time;
            for (size_t i = 0; i < links_.size(); i++)
                if (polled[i + 1].revents) read(links_[i]);
            if (time - beaten >= beat) {
                beaten = time;
                for (auto& link : links_) send(link, {Word::Beat, {}, static_cast<uint32_t>(rank_)});
            }
            for (auto& link : links_)
                if (link.fd >= 0 && time - link.heard > silence_) change(link.rank, Peer::Silent);
        }
    }

    void read(Link& link) {
        for (;;) {
            ssize_t got = recv(link.fd, link.buffer + link.filled, sizeof(Record) - link.filled, 0);
            if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
            if (got <= 0) {
                close(link.fd);
                link.fd = -1;
                return change(link.rank, Peer::Closed);
            }
            link.heard = now();
            link.filled += static_cast<size_t>(got);
            if (link.filled < sizeof(Record)) continue;
            link.filled = 0;
            Record record;
            std::memcpy(&record, link.buffer, sizeof record);
            if (record.rank >= peers_->states.size()) continue;
            if (record.word == Word::Lost) change(static_cast<int>(record.rank), Peer::Reported);
            if (record.word == Word::Left) change(static_cast<int>(record.rank), Peer::Left);
        }
    }

    void change(int rank, Peer state) {
        Peer here = Peer::Here;
        if (!peers_->states[static_cast<size_t>(rank)].compare_exchange_strong(here, state)) return;
        if (state != Peer::Left) {
            int none = -1;
            peers_->lost.compare_exchange_strong(none, rank);
        }
        for (auto& link : links_)
            if (link.rank != rank || state == Peer::Silent)
                send(link, {state == Peer::Left ? Word::Left : Word::Lost, {}, static_cast<uint32_t>(rank)});
        uint64_t one = 1;
        if (write(changed_, &one, sizeof one) < 0) return;  // the reader has exited
    }

    static void send(Link& link, Record record) {
        if (link.fd >= 0 && ::send(link.fd, &record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return;  // recv() will report it
    }

    int rank_;
    int64_t silence_;
    int changed_, wake_;
    std::shared_ptr<Peers> peers_;
    std::vector<Link> links_;
    std::atomic<bool> ending_{false};
    std::thread thread_;
};

Mutex mutex;
std::shared_ptr<Peers> current;
Watch* watch = nullptr;  // never deleted while its thread runs: a process may exit without ending it

// In a forked child: closes its copies of the connections, whose other ends would take the parent for alive. The thread
// does not exist in this process, so it cannot be joined.
void forget() {
    if (!watch) return;
    watch->close_all();
    watch = nullptr;
    set_peers(nullptr);
}

}  // namespace

std::shared_ptr<Peers> peers() {
    std::lock_guard lock(mutex);
    return current;
}

void set_peers(std::shared_ptr<Peers> value) {
    std::lock_guard lock(mutex);
    current = std::move(value);
}

void start_watch(int rank, int size, const std::vector<std::pair<int, int>>& connections, double silence, int changed) {
    static bool registered = (after_fork_in_child(forget), true);
    (void)registered;
    watch = new Watch(rank, size, connections, silence, changed);
}

void end_watch() {
    if (!watch) return;
    watch->end();
    delete watch;
    watch = nullptr;
    set_peers(nullptr);
}

}  // namespace fb::cluster
