;; Guardians, weak tables, threads, continuations, strings, bignums: each with much garbage, and sums that
;; must come out.
(use-modules (ice-9 threads)
             (ice-9 match)
             (ice-9 futures)
             (ice-9 popen)
             (ice-9 rdelim)
             (ice-9 weak-vector)
             (srfi srfi-1)
             (srfi srfi-9)
             (srfi srfi-43)
             ((system base compile) #:select (compile)))

(define (say name value)
  (format #t "~a: ~s\n" name value))

;; A tree of pairs is built over and over; one is kept.
(define (tree depth)
  (if (zero? depth) '() (cons (tree (- depth 1)) (tree (- depth 1)))))
(define (count tree)
  (match tree
    (() 1)
    ((left . right) (+ (count left) (count right)))))

(define kept (tree 14))
(say "trees" (fold + 0 (map (lambda (n) (count (tree (+ 8 (modulo n 4))))) (iota 600))))
(say "kept" (count kept))

;; Guardians give back every object that died; two objects that live are not given back.
(define (guardians)
  (define guardian (make-guardian))
  (define live (list (list 'live 1) (list 'live 2)))
  (for-each guardian live)
  (for-each (lambda (n) (guardian (list 'dead n))) (iota 1000))
  (let loop ((rounds 0) (got '()))
    (gc)
    (let ((more (let next ((all '()))
                  (match (guardian)
                    (#f all)
                    (object (next (cons object all)))))))
      (let ((got (append more got)))
        (if (or (>= (length got) 995) (= rounds 20))
            (begin
              (say "given back" (and (>= (length got) 995) (<= (length got) 1000)))
              (say "only dead ones" (every (lambda (object) (eq? (car object) 'dead)) got))
              (say "live" live))
            (loop (+ rounds 1) got))))))
(guardians)

;; Entries of weak tables go with their keys, and stay with them.
(define (weak make name most)
  (define table (make 16))
  (define keys (map (lambda (n) (string-append "key" (number->string n))) (iota 500)))
  (for-each (lambda (key) (hash-set! table key (string-length key))) keys)
  (for-each (lambda (n) (hash-set! table (string-append "gone" (number->string n)) n)) (iota 20000))
  (gc)
  (gc)
  (say name (list (fold + 0 (map (lambda (key) (hash-ref table key 0)) keys))
                  (< (hash-fold (lambda (key value n) (+ n 1)) 0 table) most))))
(weak make-weak-key-hash-table "weak keys" 2000)
(weak make-hash-table "strong" 20501)

(define (doubly-weak)
  (define table (make-doubly-weak-hash-table))
  (define pairs (map (lambda (n) (cons (list n) (list (* n n)))) (iota 300)))
  (for-each (lambda (pair) (hashq-set! table (car pair) (cdr pair))) pairs)
  (for-each (lambda (n) (hashq-set! table (list n) (list n))) (iota 10000))
  (gc)
  (say "doubly weak" (every (lambda (pair) (eq? (hashq-ref table (car pair)) (cdr pair))) pairs)))
(doubly-weak)

(define wv (make-weak-vector 100 #f))
(define strong (map list (iota 50)))
(for-each (lambda (n object) (weak-vector-set! wv n object)) (iota 50) strong)
(for-each (lambda (n) (weak-vector-set! wv (+ 50 n) (list n))) (iota 50))
(gc)
(say "weak vector" (every (lambda (n) (equal? (weak-vector-ref wv n) (list n))) (iota 50)))
(say "still there" (length strong))

;; Threads: each makes garbage; some wait, some hold a mutex. They are few and live long, because Guile 3.0.8
;; crashes with hundreds of short ones every second time, with the system's libgc too.
(define (work seed)
  (let loop ((n 0) (sum 0) (list '()))
    (if (= n 60000)
        (+ sum (length list))
        (loop (+ n 1)
              (+ sum (modulo (* seed n) 7))
              (if (zero? (modulo n 1000)) '() (cons (make-vector 3 n) list))))))
;; Before 3.0.9 lock-mutex may wait for ever when a collection interrupts it, whichever the libgc. Under
;; stress there are hundreds.
(define locks?
  (not (and (getenv "PLIMSOLL_GC_STRESS")
            (string=? (effective-version) "3.0")
            (< (string->number (micro-version)) 9))))
(when locks?
  (say "par-map" (par-map work (iota 12)))
  (say "n-par-map" (n-par-map 3 (lambda (n) (string-length (make-string (* 1000 n) #\x))) (iota 30))))

(define (queue)
  (define mutex (make-mutex))
  (define filled (make-condition-variable))
  (define items '())
  (define makers
    (map (lambda (id)
           (call-with-new-thread
            (lambda ()
              (for-each (lambda (n)
                          (let ((item (make-string 100 (integer->char (+ 65 (modulo n 26))))))
                            (with-mutex mutex
                              (set! items (cons item items))
                              (signal-condition-variable filled))))
                        (iota 2000))
              id)))
         (iota 4)))
  (define total
    (let loop ((left 8000) (sum 0))
      (if (zero? left)
          sum
          (let ((taken (with-mutex mutex
                         (let wait ()
                           (when (null? items)
                             (wait-condition-variable filled mutex)
                             (wait)))
                         (let ((all items))
                           (set! items '())
                           all))))
            (loop (- left (length taken))
                  (fold (lambda (item sum) (+ sum (string-length item))) sum taken))))))
  (say "queue" (list total (map join-thread makers))))
(when locks? (queue))

(define fluid (make-fluid 0))
(when locks?
  (say "futures and fluids"
       (let ((all (map (lambda (n) (future (with-fluids ((fluid n)) (work (fluid-ref fluid))))) (iota 6))))
         (map touch all))))

;; Continuations, captured and entered again while much is allocated between.
(define (generator list)
  (define return #f)
  (define (next)
    (call/cc
     (lambda (r)
       (set! return r)
       (for-each (lambda (item)
                   (call/cc
                    (lambda (again)
                      (set! next (lambda () (again #f)))
                      (make-vector 1000 item)
                      (return item))))
                 list)
       (return 'done))))
  (lambda () (call/cc (lambda (r) (set! return r) (next)))))
(define (drain generator)
  (let loop ((sum 0))
    (match (generator)
      ('done sum)
      (n (loop (+ sum n))))))
(say "call/cc" (drain (generator (iota 3000))))

(define tag (make-prompt-tag))
(define (yielding n)
  (call-with-prompt tag
    (lambda ()
      (let loop ((k 0))
        (when (< k n)
          (abort-to-prompt tag (make-list 20 k))
          (loop (+ k 1))))
      #f)
    (lambda (k value) (cons value k))))
(say "prompts"
     (let loop ((state (yielding 3000)) (sum 0))
       (match state
         (#f sum)
         ((value . k)
          (loop (call-with-prompt tag (lambda () (k #f)) (lambda (k value) (cons value k)))
                (+ sum (apply + value)))))))

;; Bignums, strings, bytevectors, records, exceptions.
(define (factorial n) (if (zero? n) 1 (* n (factorial (- n 1)))))
(say "bignums" (modulo (fold + 0 (map factorial (iota 400))) 1000000007))
(say "digits" (string-length (number->string (factorial 1500))))
(define-record-type point (make-point x y) point? (x point-x) (y point-y set-point-y!))
(define points (vector-unfold (lambda (n) (make-point n (list n))) 20000))
(vector-for-each (lambda (n point) (set-point-y! point (number->string (point-x point)))) points)
(say "records" (vector-fold (lambda (n sum point) (+ sum (string-length (point-y point)))) 0 points))
(say "exceptions"
     (fold (lambda (n sum)
             (+ sum (catch 'too-far
                      (lambda () (if (odd? n) (throw 'too-far n) 1))
                      (lambda (key n) (length (iota (modulo n 10)))))))
           0 (iota 5000)))
(define port (open-output-string))
(for-each (lambda (n) (write (list n (* 1.5 n) "text") port)) (iota 5000))
(say "ports" (string-length (get-output-string port)))

;; A compiled closure made at run time, and a child process.
(say "compiled"
     (fold + 0 (map (lambda (n)
                      ((compile `(lambda (y) (* y ,n))) 3))
                    (iota 12))))
(say "child"
     (let* ((pipe (open-input-pipe "echo from a child"))
            (line (read-line pipe)))
       (list line (close-pipe pipe))))
(say "forks"
     (map (lambda (n)
            (match (primitive-fork)
              (0 (gc) (primitive-_exit (modulo (count (tree (+ 5 n))) 100)))
              (pid (status:exit-val (cdr (waitpid pid))))))
          (iota 3)))
(say "kept" (count kept))
