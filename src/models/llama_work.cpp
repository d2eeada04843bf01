/* llama_work.cpp - work on ggml's threads; see llama_work.h.
 *
 * A graph of one node, whose operation is a function of ours, is what ggml runs on all of its
 * threads at once. Each thread takes the next part until none is left. */
#include "llama_work.h"

#include <ggml-backend.h>
#include <ggml.h>

#include <atomic>
#include <new>

struct rt_work {
    ggml_backend_t cpu;
    int n_threads;
};

namespace {

struct job {
    rt_work_fn *fn;
    void *ud;
    int n;
    std::atomic<int> next;
};

void take_parts(ggml_tensor *, int, int, void *ud) {
    job *j = static_cast<job *>(ud);
    for (int part; (part = j->next.fetch_add(1)) < j->n;) j->fn(j->ud, part);
}

typedef void set_threads_fn(ggml_backend_t, int);

void set_threads(ggml_backend_t b, int n) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(b));
    void *f = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    if (f) reinterpret_cast<set_threads_fn *>(f)(b, n);
}

/* The description of a graph: a few tensors whose data lies elsewhere. */
ggml_context *describe() {
    ggml_init_params p = {8 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true};
    return ggml_init(p);
}

int compute(rt_work *w, ggml_context *c, ggml_tensor *last, retrace_error *err) {
    ggml_cgraph *g = ggml_new_graph(c);
    ggml_build_forward_expand(g, last);
    if (ggml_backend_graph_compute(w->cpu, g) == GGML_STATUS_SUCCESS) return RETRACE_OK;
    return retrace_fail(err, RETRACE_ENOMEM, "ggml could not compute");
}

int no_memory(retrace_error *err) {
    return retrace_fail(err, RETRACE_ENOMEM, "out of memory");
}

} /* namespace */

int rt_work_new(rt_work **out, int n_threads, retrace_error *err) {
    rt_work *w = new (std::nothrow) rt_work();
    if (!w) return no_memory(err);
    w->cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr);
    if (!w->cpu) {
        delete w;
        return retrace_fail(err, RETRACE_EMODEL, "ggml has no CPU back end");
    }
    w->n_threads = n_threads;
    set_threads(w->cpu, n_threads);
    *out = w;
    return RETRACE_OK;
}

void rt_work_free(rt_work *w) {
    if (!w) return;
    ggml_backend_free(w->cpu);
    delete w;
}

int rt_work_run(rt_work *w, int n, rt_work_fn *fn, void *ud, retrace_error *err) {
    float nothing = 0;
    job j = {fn, ud, n, {0}};
    ggml_context *c = describe();
    if (!c) return no_memory(err);
    ggml_tensor *t =
        ggml_custom_4d(c, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, take_parts, w->n_threads, &j);
    t->data = &nothing;
    int rc = compute(w, c, t, err);
    ggml_free(c);
    return rc;
}

int rt_work_multiply(rt_work *k, const float *w, int rows, int dim, const float *states, int n,
                     float *x, retrace_error *err) {
    ggml_context *c = describe();
    if (!c) return no_memory(err);
    ggml_tensor *a = ggml_new_tensor_2d(c, GGML_TYPE_F32, dim, rows);
    ggml_tensor *b = ggml_new_tensor_2d(c, GGML_TYPE_F32, dim, n);
    a->data = const_cast<float *>(w);
    b->data = const_cast<float *>(states);
    ggml_tensor *y = ggml_mul_mat(c, a, b);
    y->data = x;
    int rc = compute(k, c, y, err);
    ggml_free(c);
    return rc;
}
