/* llama_expand.cpp - a model file with its matrices in 32-bit floats; see llama_expand.h.
 *
 * libllama has no fast product of many rows with some of the quantised types; floats are several
 * times faster there. The expansion is a GGUF file of its own, written to memory that has no name
 * in any folder (where the system has such; else to an unnamed temporary file) and mapped from
 * there by libllama: so the floats exist once. Tensors are expanded a piece at a time.
 *
 * Of ggml this file uses the reader of GGUF headers and the table of types. */
#include "llama_expand.h"

#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace {

const int64_t PIECE = 1 << 18; /* elements expanded at once */

struct closer {
    void operator()(FILE *f) const {
        fclose(f);
    }
    void operator()(gguf_context *g) const {
        gguf_free(g);
    }
    void operator()(ggml_context *c) const {
        ggml_free(c);
    }
};

/* Where a tensor lies in the file, and as what. */
struct tensor {
    std::string name;
    ggml_type type;
    int64_t columns, n; /* elements of a row and of all */
    int dims;
    off_t at;
    size_t bytes;
};

/* A file and what its header says. */
struct source {
    const char *path;
    std::unique_ptr<FILE, closer> file;
    std::unique_ptr<gguf_context, closer> header;
    std::unique_ptr<ggml_context, closer> shapes;
    std::vector<tensor> tensors;
};

template <typename F> int guarded(retrace_error *err, F f) {
    try {
        return f();
    } catch (const std::bad_alloc &) {
        return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
    } catch (const std::exception &e) {
        return retrace_fail(err, RETRACE_EMODEL, "ggml: %s", e.what());
    }
}

tensor look(const source &s, int64_t i) {
    const ggml_tensor *t = ggml_get_tensor(s.shapes.get(), gguf_get_tensor_name(s.header.get(), i));
    tensor out = {t->name, t->type, t->ne[0], ggml_nelements(t), ggml_n_dims(t), 0, ggml_nbytes(t)};
    out.at =
        (off_t)(gguf_get_data_offset(s.header.get()) + gguf_get_tensor_offset(s.header.get(), i));
    return out;
}

int open_source(source &s, const char *path, retrace_error *err) {
    s.path = path;
    s.file.reset(fopen(path, "rb"));
    if (!s.file) {
        return retrace_fail(err, RETRACE_EIO, "cannot read '%s': %s", path, strerror(errno));
    }
    ggml_context *shapes = nullptr;
    gguf_init_params p = {true, &shapes};
    s.header.reset(gguf_init_from_file(path, p));
    s.shapes.reset(shapes);
    if (!s.header || !shapes) {
        return retrace_fail(err, RETRACE_EMODEL, "the header of '%s' cannot be read", path);
    }
    int64_t n = gguf_get_n_tensors(s.header.get());
    for (int64_t i = 0; i < n; i++) s.tensors.push_back(look(s, i));
    return RETRACE_OK;
}

int read_at(const source &s, off_t at, void *to, size_t bytes, retrace_error *err) {
    if (fseeko(s.file.get(), at, SEEK_SET) == 0 && fread(to, 1, bytes, s.file.get()) == bytes) {
        return RETRACE_OK;
    }
    return retrace_fail(err, RETRACE_EIO, "cannot read '%s': %s", s.path,
                        ferror(s.file.get()) ? strerror(errno) : "it became shorter");
}

/* Calls f with the tensor's elements as floats, in order, some at a time. */
template <typename F> int each_piece(const source &s, const tensor &t, F f, retrace_error *err) {
    auto to_float = ggml_get_type_traits(t.type)->to_float;
    if (t.type != GGML_TYPE_F32 && !to_float) {
        return retrace_fail(err, RETRACE_EMODEL,
                            "tensor '%s' of '%s' is of a type (%s) without "
                            "an expansion",
                            t.name.c_str(), s.path, ggml_type_name(t.type));
    }
    /* whole rows where they are short; in any case whole blocks */
    int64_t step = t.columns < PIECE ? PIECE / t.columns * t.columns : t.columns;
    std::vector<char> raw(ggml_row_size(t.type, step));
    std::vector<float> x((size_t)step);
    int rc = RETRACE_OK;
    off_t at = t.at;
    for (int64_t i = 0; i < t.n && rc == RETRACE_OK; i += step) {
        int64_t n = std::min(step, t.n - i);
        size_t bytes = ggml_row_size(t.type, n);
        rc = read_at(s, at, raw.data(), bytes, err);
        if (rc < 0) break;
        if (to_float)
            to_float(raw.data(), x.data(), n);
        else
            memcpy(x.data(), raw.data(), bytes);
        at += (off_t)bytes;
        rc = f(x.data(), (size_t)n);
    }
    return rc;
}

/* ==== The expansion ==== */

bool grows(const tensor &t) {
    return t.dims >= 2 && t.type != GGML_TYPE_F32 && ggml_get_type_traits(t.type)->to_float;
}

FILE *unnamed_file() {
#ifdef MFD_CLOEXEC
    int fd = memfd_create("weights", MFD_CLOEXEC);
    if (fd >= 0) {
        FILE *f = fdopen(fd, "w+b");
        if (!f) close(fd);
        return f;
    }
#endif
    return tmpfile();
}

int write_failed(const char *path, retrace_error *err) {
    int code = errno == ENOSPC || errno == ENOMEM ? RETRACE_ENOMEM : RETRACE_EIO;
    return retrace_fail(err, code, "cannot expand '%s': %s", path, strerror(errno));
}

int put(FILE *f, const char *path, const void *data, size_t n, retrace_error *err) {
    return fwrite(data, 1, n, f) == n ? RETRACE_OK : write_failed(path, err);
}

/* Zeros up to a multiple of the alignment. */
int pad(FILE *f, const source &s, size_t bytes, retrace_error *err) {
    size_t to = gguf_get_alignment(s.header.get());
    std::vector<char> zeros(to);
    return put(f, s.path, zeros.data(), (to - bytes % to) % to, err);
}

int write_tensor(FILE *f, const source &s, const tensor &t, retrace_error *err) {
    size_t bytes = grows(t) ? (size_t)t.n * sizeof(float) : t.bytes;
    int rc;
    if (grows(t)) {
        auto add = [&](const float *x, size_t n) { return put(f, s.path, x, n * sizeof *x, err); };
        rc = each_piece(s, t, add, err);
    } else {
        std::vector<char> raw(t.bytes);
        rc = read_at(s, t.at, raw.data(), t.bytes, err);
        if (rc == RETRACE_OK) rc = put(f, s.path, raw.data(), t.bytes, err);
    }
    return rc == RETRACE_OK ? pad(f, s, bytes, err) : rc;
}

int check_memory(const source &s, retrace_error *err) {
    double need = 0, page = (double)sysconf(_SC_PAGESIZE), pages = (double)sysconf(_SC_PHYS_PAGES);
    for (const tensor &t : s.tensors) need += grows(t) ? 4.0 * (double)t.n : (double)t.bytes;
    if (page <= 0 || pages <= 0 || need < page * pages) return RETRACE_OK;
    return retrace_fail(err, RETRACE_ENOMEM,
                        "weights f32 of '%s' take %.0f MiB, and this machine has %.0f", s.path,
                        need / 1048576, page * pages / 1048576);
}

int write_all(FILE *f, source &s, retrace_error *err) {
    for (const tensor &t : s.tensors) {
        if (grows(t)) gguf_set_tensor_type(s.header.get(), t.name.c_str(), GGML_TYPE_F32);
    }
    gguf_set_val_u32(s.header.get(), "general.file_type", 0); /* all F32 */
    std::vector<char> header(gguf_get_meta_size(s.header.get()));
    gguf_get_meta_data(s.header.get(), header.data());
    int rc = put(f, s.path, header.data(), header.size(), err);
    for (size_t i = 0; i < s.tensors.size() && rc == RETRACE_OK; i++) {
        rc = write_tensor(f, s, s.tensors[i], err);
    }
    if (rc == RETRACE_OK && fflush(f) != 0) rc = write_failed(s.path, err);
    rewind(f);
    return rc;
}

} /* namespace */

int rt_expand(FILE **out, const char *path, retrace_error *err) {
    *out = nullptr;
    return guarded(err, [&] {
        source s;
        int rc = open_source(s, path, err);
        if (rc < 0) return rc;
        if (gguf_find_key(s.header.get(), "split.count") >= 0) {
            return retrace_fail(err, RETRACE_EMODEL,
                                "'%s' is one of several files; weights f32 needs a single one",
                                path);
        }
        if (std::none_of(s.tensors.begin(), s.tensors.end(), grows)) return (int)RETRACE_OK;
        rc = check_memory(s, err);
        if (rc < 0) return rc;
        std::unique_ptr<FILE, closer> f(unnamed_file());
        if (!f) return write_failed(path, err);
        rc = write_all(f.get(), s, err);
        if (rc == RETRACE_OK) *out = f.release();
        return rc;
    });
}

/* ==== One tensor ==== */

int rt_tensor(const char *path, const char *name, float *out, size_t n, retrace_error *err) {
    return guarded(err, [&] {
        source s;
        int rc = open_source(s, path, err);
        if (rc < 0) return rc;
        for (const tensor &t : s.tensors) {
            if (t.name != name || (size_t)t.n != n) continue;
            auto add = [&](const float *x, size_t k) {
                memcpy(out, x, k * sizeof *x);
                out += k;
                return (int)RETRACE_OK;
            };
            return each_piece(s, t, add, err);
        }
        return retrace_fail(err, RETRACE_EMODEL, "'%s' has no tensor '%s' of %zu numbers", path,
                            name, n);
    });
}

int rt_tensor_shape(const char *path, const char *name, int64_t *columns, int64_t *rows) {
    int found = 0;
    guarded(nullptr, [&] {
        source s;
        int rc = open_source(s, path, nullptr);
        for (size_t i = 0; rc == RETRACE_OK && i < s.tensors.size(); i++) {
            const tensor &t = s.tensors[i];
            if (t.name != name) continue;
            *columns = t.columns;
            *rows = t.columns > 0 ? t.n / t.columns : 0;
            found = 1;
        }
        return rc;
    });
    return found;
}
