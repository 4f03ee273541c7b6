-- What products took, all together: counted in the step that ends them, and never falling (jobs/ledger/totals.py).
-- In `counts`, products:<kernel>, by kernel that ran: how many, of how many launches, microseconds of them all together in
-- all and in the queue, and nanoseconds of copies to the device, of the kernel and of copies back.
local served, launched = {}, {} -- what this step adds; what was measured of launches that made several products
local NONE = '0 0 0 0 0 0 0'
local FIGURES, KEPT = '(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)', '%d %d %d %d %d %d %d'

-- The sums with one product more, of a launch of its own.
local function sums_with(sums, measured, took, waited)
  local h2d, own, d2h = string.match(measured, '(%S+) (%S+) (%S+)')
  local products, launches, all, queued, to_device, of_kernel, back = string.match(sums or NONE, FIGURES)
  return string.format(KEPT, products + 1, launches + 1, all + took, queued + waited, to_device + h2d * 1e6,
    of_kernel + own * 1e6, back + d2h * 1e6)
end

-- Reads what is counted of a kernel, with `ended`, which counts jobs in the same step.
local function read_served(kernel, ended)
  local field = 'products:' .. kernel
  local sums, so_far = unpack(call('HMGET', counts, field, ended))
  known[ended] = known[ended] or tonumber(so_far or 0)
  local sum = {string.match(sums or NONE, FIGURES)}
  served[kernel] = sum
  return sum
end

-- A product that succeeds. `measured`: milliseconds of the copy to the device, of the kernel and of the copy back, and how
-- many products the launch made; nothing for a benchmark, which has no measured product.
local function serve(job, kernel, at, measured)
  if measured == '' then
    return
  end
  local h2d, own, d2h, batch = string.match(measured, '(%S+) (%S+) (%S+) (%S+)')
  local sum = served[kernel] or read_served(kernel, 'ended:succeeded')
  if batch == '1' or not launched[measured] then
    launched[measured] = true
    sum[2] = sum[2] + 1
  end
  sum[1], sum[3], sum[4] = sum[1] + 1, sum[3] + at - job.created, sum[4] + job.started - job.queued
  sum[5], sum[6], sum[7] = sum[5] + h2d * 1e6, sum[6] + own * 1e6, sum[7] + d2h * 1e6
end

local function keep_served()
  for kernel, sum in pairs(served) do
    write('HSET', counts, 'products:' .. kernel, string.format(KEPT, unpack(sum)))
  end
end
