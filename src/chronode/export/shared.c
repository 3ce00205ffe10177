/* Functions of generated code with any math library. */

static float m_sigmoid(float x)
{
    return 1.0f / (1.0f + m_exp(-x));
}

static float m_softplus(float x)
{
    return x > 20.0f ? x : m_log1p(m_exp(x));
}

/* y (rows, n) = bias + a (rows, k) times the transpose of w (n, k) */
static void product(const float *w, const float *bias, const float *a, float *y, int rows, int n, int k)
{
    const int fours = k - k % 4;
    for (int r = 0; r < rows; ++r, a += k) {
        const float *v = w;
        for (int j = 0; j < n; ++j) {
            float s0 = bias ? bias[j] : 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
            int i;
            for (i = 0; i < fours; i += 4, v += 4) {
                s0 += v[0] * a[i];
                s1 += v[1] * a[i + 1];
                s2 += v[2] * a[i + 2];
                s3 += v[3] * a[i + 3];
            }
            for (i = fours; i < k; ++i) {
                s0 += *v++ * a[i];
            }
            *y++ = (s0 + s1) + (s2 + s3);
        }
    }
}

/* As product, for the matrix w * scale[n] * unit and the bias bias * bias_unit. */
static void product_int8(const signed char *w, const unsigned short *scale, float unit, const short *bias,
                         float bias_unit, const float *a, float *y, int rows, int n, int k)
{
    const int fours = k - k % 4;
    for (int r = 0; r < rows; ++r, a += k) {
        const signed char *v = w;
        for (int j = 0; j < n; ++j) {
            float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
            int i;
            for (i = 0; i < fours; i += 4, v += 4) {
                s0 += (float)v[0] * a[i];
                s1 += (float)v[1] * a[i + 1];
                s2 += (float)v[2] * a[i + 2];
                s3 += (float)v[3] * a[i + 3];
            }
            for (i = fours; i < k; ++i) {
                s0 += (float)*v++ * a[i];
            }
            *y++ = (bias ? bias_unit * (float)bias[j] : 0.0f) + unit * (float)scale[j] * ((s0 + s1) + (s2 + s3));
        }
    }
}
