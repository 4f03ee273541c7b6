-- What products took, all together: counted in the step that ends them, and never falling (jobs/ledger/totals.py).
-- In `counts`, products:<kernel>, by kernel that ran: how many, of how many launches, microseconds of them all together in
-- all and in the queue, and nanoseconds of copies to the device, of the kernel and of copies back.
local served, launched = {}, {} -- what this step adds; outcomes of launches that made several products
local MEASURED = '"measured":{"h2d_ms":([^,]+),"kernel_ms":([^,]+),"d2h_ms":([^}]+)}.*"batch":(%d+)' -- of an Outcome
local FIGURES, KEPT = '(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)', '%d %d %d %d %d %d %d'

-- A product that succeeds; a benchmark has no measured product.
local function serve(job, kernel, outcome, at)
  local h2d, own, d2h, batch = string.match(outcome, MEASURED)
  if not h2d then
    return
  end
  local sum = served[kernel]
  if not sum then
    sum = {string.match(redis.call('HGET', counts, 'products:' .. kernel) or '0 0 0 0 0 0 0', FIGURES)}
    served[kernel] = sum
  end
  if batch == '1' or not launched[outcome] then
    launched[outcome] = true
    sum[2] = sum[2] + 1
  end
  sum[1], sum[3], sum[4] = sum[1] + 1, sum[3] + at - job.values[21], sum[4] + job.started - job.queued
  sum[5], sum[6], sum[7] = sum[5] + h2d * 1e6, sum[6] + own * 1e6, sum[7] + d2h * 1e6
end

local function keep_served()
  for kernel, sum in pairs(served) do
    redis.call('HSET', counts, 'products:' .. kernel, string.format(KEPT, unpack(sum)))
  end
end
